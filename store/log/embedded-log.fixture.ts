import { openEmbeddedLog } from './embedded-log.ts';
import type { OpenLog } from './contract-support.ts';

/** Opens embedded logs for the contract suite. */
export const openLog: OpenLog<{ directory: string }> = ({ directory }, options) =>
  openEmbeddedLog({ directory, compression: 'fast', ...options });
