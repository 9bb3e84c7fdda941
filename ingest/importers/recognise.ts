/** Which format a file has, from the beginning of its content. Pure. */

export const FORMATS = ['verifiers-v1', 'verifiers-v0', 'verifiers-v0-page', 'atif'] as const;
export type Format = (typeof FORMATS)[number];
export type Recognised = { readonly format: Format } | { readonly reason: string };

/** Keys of the outermost object as far as `head` reaches; null when it does not begin with an object. Strings are skipped, not checked. */
export function outerKeys(head: Uint8Array): Set<string> | null {
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  let at = bytes[0] === 0xef ? 3 : 0;
  while (at < bytes.length && ' \t\r\n'.includes(String.fromCharCode(bytes[at] as number))) at++;
  if (bytes[at] !== 0x7b) return null;
  const keys = new Set<string>();
  let depth = 0;
  let expectKey = false;
  for (; at < bytes.length; at++) {
    const b = bytes[at] as number;
    if (b === 0x22) {
      const end = stringEnd(bytes, at + 1);
      if (end < 0) break;
      if (depth === 1 && expectKey) keys.add(bytes.toString('utf8', at + 1, end));
      expectKey = false;
      at = end;
    } else if (b === 0x7b || b === 0x5b) {
      depth++;
      expectKey = b === 0x7b;
    } else if (b === 0x7d || b === 0x5d) {
      if (--depth === 0) break;
    } else if (b === 0x2c) expectKey = true;
    // a comma inside a list sets it too, but only keys of depth 1 are taken, and depth 1 is the object
  }
  return keys;
}

/** What follows the bracket of a file that is one list; null when it is none. */
function listStart(head: Uint8Array): Uint8Array | null {
  const match = /^(?:\xef\xbb\xbf)?[ \t\r\n]*\[/.exec(
    Buffer.from(head.buffer, head.byteOffset, Math.min(head.length, 200)).toString('latin1'),
  );
  return match === null ? null : head.subarray(match[0].length);
}

/** Whether a file is one document, which may run over lines: a list, or an object that goes on after its first line. Else each line is one. */
export function isOneDocument(head: Uint8Array): boolean {
  if (listStart(head) !== null) return true;
  const text = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  const start = text.indexOf(0x7b);
  const end = start < 0 ? -1 : text.indexOf(0x0a, start);
  if (end < 0) return false;
  return /[{[,]\s*$/.test(text.toString('latin1', Math.max(start, end - 200), end));
}

function stringEnd(bytes: Buffer, from: number): number {
  for (let at = from; at < bytes.length; at++) {
    if (bytes[at] === 0x5c) at++;
    else if (bytes[at] === 0x22) return at;
  }
  return -1;
}

/** What a file is by its first bytes; `name` decides only where the content does not (an empty file). */
export function recognise(head: Uint8Array, name: string): Recognised {
  const start = Buffer.from(head.buffer, head.byteOffset, Math.min(head.length, 200)).toString('latin1');
  if (start.startsWith('version https://git-lfs')) {
    return { reason: 'a Git LFS pointer, not the file itself: fetch it with git lfs pull' };
  }
  if (start.trim() === '') return formatByName(name) ?? { reason: 'the file is empty' };
  const inList = listStart(head);
  const keys = outerKeys(inList ?? head);
  if (keys?.has('__header__') === true)
    return { reason: 'a stream of single steps: import the trajectory that its writer makes of them when it is done' };
  if (keys?.has('schema_version') === true && (keys.has('steps') || keys.has('agent'))) return { format: 'atif' };
  if (keys === null || inList !== null) return { reason: 'does not begin with a JSON object' };
  if (keys.has('traces') || (keys.has('id') && keys.has('env') && keys.has('task'))) return { format: 'verifiers-v1' };
  if (keys.has('samples') && keys.has('run_id')) return { format: 'verifiers-v0-page' };
  if (keys.has('nodes') && keys.has('agent')) return { reason: 'traces without their episodes: import the traces.jsonl of the run' };
  if (keys.has('prompt') || keys.has('completion')) return { format: 'verifiers-v0' };
  return { reason: `no known format: the first object has the keys ${[...keys].slice(0, 6).join(', ') || '(none)'}` };
}

function formatByName(name: string): { format: Format } | null {
  if (/traces\.jsonl/.test(name)) return { format: 'verifiers-v1' };
  return /results\.jsonl/.test(name) ? { format: 'verifiers-v0' } : null;
}
