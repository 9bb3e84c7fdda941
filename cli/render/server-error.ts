import { z } from 'zod';
import type { Paint } from './paint.ts';
import { visible } from './terminal-text.ts';

/** The error body of the server. */
export type ServerError = { readonly code: string; readonly message: string; readonly details?: Readonly<Record<string, unknown>> };

/** Other errors have a `position` too, such as one of the log: only that of a query is shown. */
const queryPosition = z.object({ line: z.int(), column: z.int(), excerpt: z.string(), caret: z.string() });

/** An error as lines: what, where (the line of the query with a caret), and ClickHouse's own code. */
export function renderError(error: ServerError, paint: Paint): string[] {
  const lines = [`${paint.red('error')} ${visible(error.message)} ${paint.dim(`(${tag(error)})`)}`];
  const position = queryPosition.safeParse(error.details?.['position']);
  if (position.success) {
    const { line, column, excerpt, caret } = position.data;
    const place = `line ${line}, column ${column}: `;
    lines.push(`${paint.dim(place)}${visible(excerpt)}`, `${' '.repeat(place.length)}${paint.red(caret)}`);
  }
  return lines;
}

function tag({ code, details }: ServerError): string {
  const { clickhouseCode, clickhouseType } = details ?? {};
  if (typeof clickhouseCode !== 'number') return code;
  return `${code}, ClickHouse ${clickhouseCode}${typeof clickhouseType === 'string' ? ` ${clickhouseType}` : ''}`;
}
