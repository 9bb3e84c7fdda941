/** Changes members of a JSON object as text: everything else goes on byte for byte, numbers of any size and keys of any order included. Pure. */
import { skipSpace, topMembers } from '../upstreams/json-walk.ts';

/** Each key of `changes` gets the JSON text given, or goes (null). New members stand at the end. Throws `Unreadable` when `text` is no object. */
export function patchBody(text: string, changes: ReadonlyMap<string, string | null>): string {
  if (changes.size === 0) return text;
  const kept: string[] = [];
  for (const { key, keyAt, end } of topMembers(text)) if (!changes.has(nameOf(key))) kept.push(text.slice(keyAt, end));
  for (const [key, value] of changes) if (value !== null) kept.push(`${JSON.stringify(key)}:${value}`);
  return `{${kept.join(',')}}`;
}

/** A key as written; escapes are rare in keys. */
function nameOf(written: string): string {
  return written.includes('\\') ? (JSON.parse(`"${written}"`) as string) : written;
}

/** The text of one member's value, the last one when the key stands twice; null when there is none. */
export function memberText(text: string, name: string): string | null {
  const found = topMembers(text).findLast(({ key }) => nameOf(key) === name);
  return found === undefined ? null : text.slice(skipSpace(text, found.valueAt), found.end);
}
