import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { TapedeckError } from '../../../base/errors.ts';

/** The spec of a feed from a file, or from standard input for `-`. Errors: `usage`. */
export async function readSpec(file: string): Promise<unknown> {
  let content: string;
  try {
    content = file === '-' ? await text(process.stdin) : await readFile(file, 'utf8');
  } catch (cause) {
    throw new TapedeckError('usage', `the spec ${file} cannot be read: name a file with the spec as JSON, or - for standard input`, {
      cause,
    });
  }
  try {
    return JSON.parse(content) as unknown;
  } catch (cause) {
    throw new TapedeckError('usage', `the spec ${file} is not JSON: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}
