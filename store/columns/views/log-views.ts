/** The log itself as people see it. */
import { POSITION_COLUMNS } from './judgement-views.ts';
import { before, column, maybeId, plain, plains, type View } from './view.ts';

export const events: View = {
  name: 'events',
  about: 'Every event of the log: where it lies and what became of it. Events of deleted runs are not shown.',
  columns: [
    plain('project', 'tenant'),
    maybeId('run', 'run id'),
    maybeId('rollout', 'rollout id'),
    maybeId('trace', 'trace id'),
    column('topic', "if(t._partition >= 32768, 'feeds', 'events')", 'topic of the log'),
    ...POSITION_COLUMNS,
    plain('id', 'event id'),
    plain('type', 'event type'),
    plain('status', 'stored, duplicate, conflict or dead'),
    plain('reason', 'error code, for conflicts and dead letters'),
    plain('time', "producer's clock", 'µs'),
    plain('producer', 'id of the producer'),
    ...plains({ producer_epoch: ['epoch of the producer', 'none'], producer_seq: ['its running number', 'none'] }),
    plain('bytes', 'size of the record', 'bytes'),
    column('first_offset', 't.first_offset', 'where the event or entity came first, for duplicates and conflicts', 'none'),
  ],
  from: (source) =>
    `FROM ${source.db}log_index AS t FINAL WHERE t.project = ${source.project} AND t.status != 'deleted'${before(source, 't.')}`,
  example: 'SELECT type, status, count() AS events, sum(bytes) AS bytes FROM events GROUP BY type, status ORDER BY type, status',
};
