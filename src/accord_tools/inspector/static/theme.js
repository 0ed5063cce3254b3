// Light or dark: as the system says, unless the person chooses; kept in this browser.
const KEY = "accord-theme";
export const THEMES = ["system", "light", "dark"];

/** A setting kept in the browser; a browser that refuses storage has none. */
export function remembered(key, otherwise) {
  try {
    return localStorage.getItem(key) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keep a setting. */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The setting then lasts as long as the page.
  }
}

export function theme() {
  const kept = remembered(KEY, "system");
  return THEMES.includes(kept) ? kept : "system";
}

/** Set the theme, and keep it. */
export function setTheme(name) {
  remember(KEY, name);
  applyTheme();
}

/** Put the chosen theme on the document; the style sheet does the rest. */
export function applyTheme() {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
