import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';

/** An error as ClickHouse's clients read it from an answer. */
export type WireError = { readonly code: number; readonly name: string; readonly text: string };

/** HTTP statuses that a ClickHouse server gives to its error codes; every other code is 500. */
const STATUS = new Map<number, number>(
  Object.entries({
    400: [6, 26, 27, 33, 36, 38, 41, 43, 53, 62, 69, 70, 72, 117, 131, 207, 457, 467],
    401: [194],
    403: [192, 193, 497, 511, 512, 516],
    404: [46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 336, 372],
    408: [159],
    411: [381],
    413: [191],
    501: [48],
    503: [202, 439],
  }).flatMap(([status, codes]) => codes.map((code) => [code, Number(status)] as const)),
);

/** The name and the version that stand behind a message, in any number and order. */
const SUFFIX = /(?:[.\s]*\((?:[A-Z][A-Z0-9_]+|version [^)]*(?:\([^)]*\))?)\))+$/;

/** A refusal of ours, in ClickHouse's own words and numbers. */
export function refusal(code: number, name: string, text: string): TapedeckError {
  return new TapedeckError('sql_refused', text, { details: { clickhouseCode: code, clickhouseName: name } });
}

export function httpStatusOf(error: WireError): number {
  return STATUS.get(error.code) ?? 500;
}

/**
 * The engine repeats its own prefix and suffix (`Code: 164. DB::Exception: Code: 164. DB::Exception: text. (READONLY) (version ...). (READONLY)`);
 * clients expect each once.
 */
export function wireErrorOf(error: unknown): WireError {
  if (isTapedeckError(error) && typeof error.details['clickhouseCode'] === 'number') {
    return { code: error.details['clickhouseCode'], name: String(error.details['clickhouseName']), text: error.message };
  }
  const message = error instanceof Error ? error.message : String(error);
  // No space, or no quota, while a body is written to the spool.
  if (['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException | undefined)?.code ?? '')) {
    return { code: 243, name: 'NOT_ENOUGH_SPACE', text: message };
  }
  const match = /^(?:Code: (\d+)\. DB::Exception: )+([\s\S]*)$/.exec(message);
  if (!match) return { code: 1002, name: 'UNKNOWN_EXCEPTION', text: message };
  const rest = (match[2] as string).trimEnd();
  const suffix = SUFFIX.exec(rest)?.[0] ?? '';
  const name = /\(([A-Z][A-Z0-9_]+)\)/.exec(suffix)?.[1] ?? 'UNKNOWN_EXCEPTION';
  const text = rest.slice(0, rest.length - suffix.length);
  return { code: Number(match[1]), name, text };
}

export function wireText(error: WireError, version: string): string {
  return `Code: ${error.code}. DB::Exception: ${error.text}. (${error.name}) (version ${version})\n`;
}
