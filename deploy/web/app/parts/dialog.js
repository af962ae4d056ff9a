// Questions and notes over the page.

import { h, render } from "../dom.js";
import { t } from "../i18n.js";

const TOAST_MS = 4000;

/** Asks a question; answers the value of the button pressed, or null when it was closed. `choices`: [[value, label, class]]. */
export function ask(title, text, choices) {
  return new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    const done = (value) => {
      dialog.remove();
      resolve(value);
    };
    dialog.setAttribute("aria-labelledby", "dialog-title");
    dialog.addEventListener("close", () => done(null));
    render(
      dialog,
      h("h2", { id: "dialog-title" }, title),
      h("p", {}, text),
      h(
        "div",
        { class: "buttons" },
        choices.map(([value, label, style]) =>
          h("button", { type: "button", class: style ?? "", onclick: () => done(value) }, label),
        ),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A question that is answered yes or no. */
export const sure = async (title, text, yes) =>
  (await ask(title, text, [
    ["no", t("cancel"), "quiet"],
    ["yes", yes, "danger"],
  ])) === "yes";

/** A short note that goes by itself; said again while it stands, it begins anew. */
export function toast(text) {
  const place = document.getElementById("toasts");
  for (const old of [...place.children]) if (old.textContent === text) old.remove();
  const note = document.createElement("div");
  note.className = "toast";
  note.textContent = text;
  place.append(note);
  setTimeout(() => note.remove(), TOAST_MS);
}

/** Says something to who does not see the screen. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
