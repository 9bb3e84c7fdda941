/** Server-sent events out of bytes as they come: split anywhere, in the middle of a character too, with any line ending. Only `data` counts. */

export type SseReader = { /** The data of the events that ended with these bytes. */ add(bytes: Uint8Array): string[] };

export function sseReader(): SseReader {
  const decoder = new TextDecoder();
  let rest = '';
  let data: string[] = [];
  return {
    add: (bytes) => {
      rest += decoder.decode(bytes, { stream: true });
      const events: string[] = [];
      for (;;) {
        const end = lineEnd(rest);
        if (end === null) return events;
        const line = rest.slice(0, end.at);
        rest = rest.slice(end.next);
        if (line === '') {
          if (data.length > 0) events.push(data.join('\n'));
          data = [];
        } else if (line === 'data' || line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
      }
    },
  };
}

/** A carriage return at the very end may be half of a line ending. */
function lineEnd(text: string): { readonly at: number; readonly next: number } | null {
  const lf = text.indexOf('\n');
  const cr = text.indexOf('\r');
  if (cr >= 0 && (lf < 0 || cr < lf)) {
    if (cr === text.length - 1) return null;
    return { at: cr, next: text[cr + 1] === '\n' ? cr + 2 : cr + 1 };
  }
  return lf < 0 ? null : { at: lf, next: lf + 1 };
}
