/** Child of bench/projector.bench.ts: inserts Native blocks from files into an engine in this process, one after the other. Arguments: folder of blocks, data folder. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Session } from 'chdb';
import { readMigrations } from '../migrations/files.ts';
import { renderStatements } from '../migrations/render.ts';

const [blocks, data] = process.argv.slice(2) as [string, string];
const session = new Session(data);
session.query('CREATE DATABASE tapedeck');
session.query('USE tapedeck');
for (const migration of readMigrations()) {
  for (const statement of renderStatements(migration.sql, { database: 'tapedeck', cluster: null, compression: 'by part size' }))
    session.query(statement);
}
const files = readdirSync(blocks).filter((file) => !file.endsWith('.columns')).toSorted(); // prettier-ignore
const settings =
  "async_insert=0, deduplicate_insert='disable', max_threads=1, max_insert_threads=1, max_block_size=100000000, max_insert_block_size=100000000, min_insert_block_size_rows=0, min_insert_block_size_bytes=0, optimize_on_insert=0";
const started = performance.now();
for (const file of files) {
  const table = file.split('.')[1] as string;
  const columns = readFileSync(join(blocks, `${table}.columns`), 'utf8').split(',').map((c) => `\`${c}\``).join(','); // prettier-ignore
  session.query(`INSERT INTO ${table} (${columns}) FROM INFILE '${join(blocks, file)}' SETTINGS ${settings} FORMAT Native`);
}
process.send?.({ seconds: (performance.now() - started) / 1000 });
session.close();
process.exit(0);
