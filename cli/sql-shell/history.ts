/** What was typed before, kept for its owner only: statements may hold what nobody else should read. */
import { readFile, writeFile } from 'node:fs/promises';

const MOST = 1_000;

/** Newest first, as `readline` wants it. A file that is not there or cannot be read is an empty history. */
export async function readHistory(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split('\n').filter((line) => line !== '').slice(-MOST).toReversed(); // prettier-ignore
}

export async function writeHistory(file: string, newestFirst: readonly string[]): Promise<void> {
  const lines = newestFirst.slice(0, MOST).toReversed();
  // a history that cannot be kept is no reason to fail
  await writeFile(file, lines.map((line) => `${line}\n`).join(''), { mode: 0o600 }).catch(() => {});
}
