/** `data:` URLs with base64, in which chat carries images and files. */

export type DataUrl = { readonly mediaType: string; readonly base64: string };

/** Null for a link, and for a data URL that is not base64. */
export function readDataUrl(url: string): DataUrl | null {
  const comma = url.indexOf(',');
  const head = comma < 0 ? '' : url.slice(0, comma);
  if (!/^data:[^,;]*;base64$/i.test(head)) return null;
  return { mediaType: head.slice(5, -7), base64: url.slice(comma + 1) };
}

export function writeDataUrl({ mediaType, base64 }: DataUrl): string {
  return `data:${mediaType};base64,${base64}`;
}

export function isLink(url: string): boolean {
  return /^https?:\/\//i.test(url);
}
