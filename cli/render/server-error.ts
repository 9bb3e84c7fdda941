import type { Paint } from './paint.ts';
import { visible } from './terminal-text.ts';

/** The error body of the server. */
export type ServerError = { readonly code: string; readonly message: string; readonly details?: Readonly<Record<string, unknown>> };

/** An error as lines: what, where (the line of the query with a caret), and ClickHouse's own code. */
export function renderError(error: ServerError, paint: Paint): string[] {
  const lines = [`${paint.red('error')} ${visible(error.message)} ${paint.dim(`(${tag(error)})`)}`];
  const position = error.details?.['position'] as { line: number; column: number; excerpt: string; caret: string } | undefined;
  if (position !== undefined) {
    const place = `line ${position.line}, column ${position.column}: `;
    lines.push(`${paint.dim(place)}${visible(position.excerpt)}`, `${' '.repeat(place.length)}${paint.red(position.caret)}`);
  }
  return lines;
}

function tag({ code, details }: ServerError): string {
  const { clickhouseCode, clickhouseType } = details ?? {};
  if (typeof clickhouseCode !== 'number') return code;
  return `${code}, ClickHouse ${clickhouseCode}${typeof clickhouseType === 'string' ? ` ${clickhouseType}` : ''}`;
}
