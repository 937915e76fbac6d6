/*
 * Entering by a link, and the fingerprint of the host's key that the link named.
 */
const PIN = "agtphost-key";

/** The fingerprint that a link of `agtp page` named when this browser entered here; "" where none did. */
const pinned = () => {
  try {
    return localStorage.getItem(PIN) ?? "";
  } catch {
    return "";
  }
};

const remember = (fingerprint) => {
  try {
    localStorage.setItem(PIN, fingerprint);
  } catch {
    // Then the page says that the key is the host's word alone.
  }
};

// Entering

/** Keep the fingerprint of a link, which no server is sent; returns the token. */
const token_of = (text) => {
  const [token, fingerprint] = text.trim().split("#").at(-1).split(".");
  if (/^[0-9a-f]{64}$/.test(fingerprint ?? "")) remember(fingerprint);
  return token;
};

/** Post the token in the fragment, and remove it from the address. */
const enter = (form) => {
  const field = form.querySelector("[name=token]");
  form.addEventListener("submit", () => {
    field.value = token_of(field.value);
  });
  if (location.hash.length < 2) return;
  field.value = location.hash;
  history.replaceState(null, "", location.pathname);
  form.requestSubmit();
};

export { enter, pinned };
