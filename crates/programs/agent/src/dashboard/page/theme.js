// Dark or light: as the system has it, or as the person at the browser has chosen.

const CHOICES = ["system", "dark", "light"];
const KEY = "synod-colours";

function show(button, choice) {
  button.textContent = choice;
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

/** Makes the button change the colours; the choice is kept in the browser. */
export function offerThemes(button) {
  let choice = localStorage.getItem(KEY);
  if (!CHOICES.includes(choice)) choice = CHOICES[0];
  show(button, choice);
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    localStorage.setItem(KEY, choice);
    show(button, choice);
  });
}
