/**
 * What follows a stored block, outside its ledger: views of new projects, rows of deleted runs, summaries, the search index. All of it can be done again at any time; `progress`
 * remembers up to where it is done, so that a crash between a block and its summaries is caught up at the next start.
 */
import type { Clock } from '../../../base/clock.ts';
import type { ColumnStore } from '../column-store.ts';
import type { BlockReport } from './projector.ts';

export type AfterBlockOptions = {
  readonly store: ColumnStore;
  readonly clock: Clock;
  readonly reached?: (point: 'before-summaries' | 'after-summaries') => void;
};

export class AfterBlock {
  readonly #options: AfterBlockOptions;
  constructor(options: AfterBlockOptions) {
    this.#options = options;
  }
  async run(_block: BlockReport, _signal: AbortSignal): Promise<void> {
    void this.#options;
  }
  async idle(_signal: AbortSignal): Promise<void> {}
}
