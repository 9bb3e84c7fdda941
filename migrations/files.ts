import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TapedeckError } from '../base/errors.ts';

export type Migration = { readonly version: number; readonly name: string; readonly sql: string; readonly checksum: string };

/** The migration files of a folder in order: NNN_name.sql, numbered from 1 without gaps. */
export function readMigrations(folder: string = import.meta.dirname): Migration[] {
  const names = readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .toSorted();
  return names.map((name, i) => {
    const version = Number(/^(\d{3})_\w+\.sql$/.exec(name)?.[1] ?? Number.NaN);
    if (version !== i + 1) throw new TapedeckError('internal', `migrations must be numbered from 001 without gaps: ${name}`);
    const sql = readFileSync(join(folder, name), 'utf8');
    return { version, name, sql, checksum: createHash('sha256').update(sql).digest('hex') };
  });
}
