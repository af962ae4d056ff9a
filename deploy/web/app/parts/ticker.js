// Clocks: every element with data-deadline shows the seconds that are left, by the servers' time.

const EVERY_MS = 200;
const URGENT_S = 5;

/** Starts the one ticker of the page; `now()` is the servers' time in milliseconds. */
export function startTicker(now) {
  setInterval(() => {
    for (const clock of document.querySelectorAll("[data-deadline]")) tick(clock, now());
  }, EVERY_MS);
}

function tick(clock, now) {
  const left = Math.max(0, Number(clock.dataset.deadline) - now);
  const seconds = Math.ceil(left / 1000);
  const place = clock.firstElementChild ?? clock;
  if (place.textContent !== String(seconds)) place.textContent = String(seconds);
  const total = Number(clock.dataset.total) || left || 1;
  clock.style.setProperty("--left", String(Math.min(1, left / total)));
  clock.classList.toggle("urgent", seconds <= URGENT_S);
}
