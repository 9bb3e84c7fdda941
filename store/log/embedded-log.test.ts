import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { logContract } from './contract.ts';

logContract('embedded (LMDB)', {
  fixture: new URL('./embedded-log.fixture.ts', import.meta.url),
  start: async () => {
    const directory = await mkdtemp(join(tmpdir(), 'tapedeck-log-'));
    return { target: { directory }, stop: () => rm(directory, { recursive: true }) };
  },
});
