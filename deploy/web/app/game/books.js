// The fields of the rule books that a client needs (docs/RULES.md sections 3, 5, 7 and 9; libs/doudizhu/rulebook.py).

const COMMON = {
  ace_low_chains: false,
  wing_from_body: false,
  wings_repeat: true,
  rocket_as_wings: true,
  quad_as_two_pairs: false,
  four_kickers: ["two_singles", "two_pairs"],
  fours_compare_across: false,
  bomb_allowance: [null, null, null, null],
  marked_card: false,
  show_window: false,
  landlord_shows: true,
  max_redeals: 0,
  redeal_factor: 1,
  marked_joker_factor: 1,
  rob_factor: 2,
  show_factor: 2,
  bomb_factor: 2,
  rocket_factor: 2,
  rated: false,
  ready_to_start: false,
  negotiated_base: false,
};

const BOOKS = {
  classic: {
    ...COMMON,
    ace_low_chains: true,
    four_kickers: ["two_singles", "two_pairs", "single_pair"],
    fours_compare_across: true,
    marked_card: true,
    max_redeals: 6,
    redeal_factor: 2,
    marked_joker_factor: 2,
    bomb_factor: 1,
    rocket_factor: 1,
    negotiated_base: true,
  },
  happy: {
    ...COMMON,
    wing_from_body: true,
    four_kickers: ["single", "two_singles", "two_pairs"],
    landlord_shows: false,
    rob_factor: 1,
    show_factor: 1,
    ready_to_start: true,
  },
  rob: { ...COMMON, show_window: true, show_factor: 3, rated: true },
};

const RECORDED_BIDS = ["", "pass", "1", "2"]; // the order of bomb_allowance

/** Whether a seat may put down another bomb or rocket: a book can limit a farmer's by his bid. */
export function mayBomb(state, seat) {
  const { choice, bombs } = state.seats[seat];
  const most =
    seat === state.landlord ? null : (bookOf(state.terms).bomb_allowance[RECORDED_BIDS.indexOf(choice)] ?? null);
  return most === null || bombs < most;
}

/** The book of a room's terms, with what the room overrides. */
export function bookOf(terms) {
  const changed = terms.bookFieldsJson ? JSON.parse(terms.bookFieldsJson) : {};
  return { ...(BOOKS[terms.book] ?? COMMON), ...changed };
}
