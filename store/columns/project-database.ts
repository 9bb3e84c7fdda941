import { createHash } from 'node:crypto';

/** Ids that are their own database name: short, lower case (file systems may fold case), and not of the hashed form below. */
const PLAIN = /^[a-z0-9][a-z0-9_]{0,62}$/;
const HASHED = /_[0-9a-f]{32}$/;
const HASH_CHARS = 32;

/**
 * The database that holds a project's views: `p_<id>` for a plain id, else `p_<readable part>_<128 bits of sha256 as hex>`.
 * Any id of up to 256 bytes gives a name of letters, digits and `_` of at most 96 characters, and no two ids share one (up to a sha256 collision).
 */
export function projectDatabase(project: string): string {
  if (PLAIN.test(project) && !HASHED.test(project)) return `p_${project}`;
  const readable = project
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .slice(0, 60)
    .replaceAll(/^_+|_+$/g, '');
  const hash = createHash('sha256').update(project).digest('hex').slice(0, HASH_CHARS);
  return `p_${readable === '' ? 'x' : readable}_${hash}`;
}

/** Every project database begins so, and no other database of ours does. */
export const PROJECT_DATABASE_PREFIX = 'p_';
