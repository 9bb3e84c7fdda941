import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { uuidV7 } from '../../../base/uuid.ts';
import type { EngineSession } from './chdb.ts';
import type { EngineContext } from './execute.ts';
import type { Part } from './multipart.ts';
import type { EngineRequest } from './request.ts';
import type { Prepare } from './sessions.ts';
import { quoteName, quoteText } from './settings.ts';
import { refusal } from './wire-error.ts';

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Files of a form become temporary tables of the session, for this request only: `<name>_structure` (columns with types) or `<name>_types`
 * (types of columns `_1`, `_2`, ...) and `<name>_format` (TabSeparated when not given) describe each.
 */
export function externalTables(context: EngineContext, request: EngineRequest, files: readonly Part[]): Prepare | undefined {
  if (files.length === 0) return undefined;
  return async (session) => {
    const made: string[] = [];
    const undo = async (): Promise<void> => {
      for (const name of made) await session.run(`DROP TEMPORARY TABLE IF EXISTS ${quoteName(name)}`);
    };
    try {
      for (const file of files) {
        made.push(file.name);
        await makeTable(context, request, session, file);
      }
    } catch (error) {
      await undo();
      throw error;
    }
    return undo;
  };
}

async function makeTable(context: EngineContext, request: EngineRequest, session: EngineSession, file: Part): Promise<void> {
  const described = request.external.get(file.name) ?? {};
  const structure = described.structure ?? columnsOf(described.types);
  const format = described.format ?? 'TabSeparated';
  if (!NAME.test(file.name) || !NAME.test(format))
    throw refusal(36, 'BAD_ARGUMENTS', 'The name and the format of an external table must be plain identifiers');
  if (structure === null) {
    throw refusal(36, 'BAD_ARGUMENTS', `The external table ${file.name} needs the parameter ${file.name}_structure or ${file.name}_types`);
  }
  const path = join(context.spoolDirectory, uuidV7(context.clock, context.random));
  await writeFile(path, file.bytes, { mode: 0o600 });
  try {
    await session.run(`CREATE TEMPORARY TABLE ${quoteName(file.name)} (${structure}) ENGINE = Memory`);
    if (file.bytes.length === 0) return;
    await session.run(`INSERT INTO ${quoteName(file.name)} FROM INFILE ${quoteText(path)} SETTINGS async_insert = 0 FORMAT ${format}`);
  } finally {
    await rm(path, { force: true });
  }
}

function columnsOf(types: string | undefined): string | null {
  if (types === undefined) return null;
  return types
    .split(',')
    .map((type, i) => `_${i + 1} ${type}`)
    .join(', ');
}
