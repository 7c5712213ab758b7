// The one place where text becomes markup: what the server rendered and made safe.

const policy = globalThis.trustedTypes?.createPolicy('longhaul', { createHTML: (html) => html });

/** Shows markup of `POST /api/render`. Nothing else may be given. */
export function setServerHtml(element, html) {
  element.innerHTML = policy ? policy.createHTML(html) : html;
}
