// Parts of tables of figures.

import { h } from "../dom.js";
import { t } from "../i18n.js";

const NUMBERS = ["chips", "rating", "balance", "amount"];

/** The head of a column; those of numbers stand above them, on the right. */
export const headCell = (key) => h("th", { scope: "col", key, class: NUMBERS.includes(key) ? "number" : "" }, t(key));
