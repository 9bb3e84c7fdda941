/** Views of policies, optimizer steps, teachers, feeds and batches. */
import { knownTime } from '../known-time.ts';
import { ANNOTATION_STREAMS } from '../projections/trainer.ts';
import { POSITION_COLUMNS } from './judgement-views.ts';
import { before, bitNames, column, finalOf, maybeId, maybeNode, plain, plains, PROJECT_AND_RUN, ROLLOUT, TRACE, type View, type ViewSource } from './view.ts'; // prettier-ignore

const FEED = plain('feed', 'feed id');
const TIMELINE = plain('timeline', 'timeline of the feed: a rewind starts the next one', 'none');
const TIME = plain('time', "producer's clock", 'µs');
const EXTRA = plain('extra', 'what the producer could not map, as JSON text');

/** The latest event per key, as the tuple `last`. */
function latestOf(table: string, keys: string, values: string): (source: ViewSource) => string {
  return (source) =>
    `FROM (SELECT ${keys}, argMax((${values}), (_offset, _partition)) AS last FROM ${source.db}${table} FINAL WHERE project = ${source.project}${before(source)} GROUP BY ${keys}) AS t`;
}

export const policies: View = {
  name: 'policies',
  about: 'Published weights. Version n = weights after optimizer step n.',
  columns: [
    ...PROJECT_AND_RUN,
    plain('version', 'policy version', 'none'),
    TIMELINE,
    column('step', 't.last.1', 'optimizer step', 'none'),
    column('uri', 't.last.2', 'where the weights are'),
    column('trainer', 't.last.3', 'who trained them'),
    column('extra', 't.last.4', EXTRA.meaning),
    column('time', 't.last.5', TIME.meaning, 'µs'),
  ],
  from: latestOf('policies', 'project, run, version, timeline', 'step, uri, trainer, extra, time'),
  example: 'SELECT run, version, step, time FROM policies ORDER BY version DESC LIMIT 10',
};

export const trainerSteps: View = {
  name: 'trainer_steps',
  about: 'Optimizer steps with what the trainer measured; the latest event of each step counts.',
  columns: [
    ...PROJECT_AND_RUN,
    plain('step', 'optimizer step', 'none'),
    maybeId('feed', 'feed it trained from'),
    TIMELINE,
    column('batch', 't.last.1', 'batch it trained on'),
    column('metrics', 't.last.2', 'loss, kl, entropy, … as JSON text'),
    column('extra', 't.last.3', EXTRA.meaning),
    column('time', 't.last.4', TIME.meaning, 'µs'),
  ],
  from: latestOf('trainer_steps', 'project, run, feed, timeline, step', 'batch, metrics, extra, time'),
  example: "SELECT step, JSONExtractFloat(metrics, 'loss') AS loss FROM trainer_steps ORDER BY step",
};

export const referenceScores: View = {
  name: 'reference_scores',
  about: 'Log-probabilities a teacher gave later, one list per node and event.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    TRACE,
    plain('node', 'index of the node', 'none'),
    ...plains({ source: 'teacher', version: 'version of the teacher', id: 'event id' }),
    plain('logprobs', 'one per sampled token of the node', 'nats'),
    EXTRA,
    TIME,
    ...POSITION_COLUMNS,
  ],
  from: finalOf('reference_scores'),
  example: 'SELECT source, count() AS nodes, sum(length(logprobs)) AS tokens FROM reference_scores GROUP BY source',
};

export const trainerAnnotations: View = {
  name: 'trainer_annotations',
  about: 'What a trainer computed per token of a branch it trained on.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    TRACE,
    plain('leaf', 'leaf node of the branch', 'none'),
    maybeId('feed', 'feed id'),
    TIMELINE,
    plain('step', 'optimizer step', 'none'),
    plain('id', 'event id'),
    column('streams', bitNames('t._streams', ANNOTATION_STREAMS), 'which streams were given'),
    plain('trainer_logprobs', 'log-probabilities under the trained policy', 'nats'),
    plain('entropies', 'entropy of the distribution at each token', 'nats'),
    plain('is_masked', '1 where the trainer masked the token', 'none'),
    EXTRA,
    TIME,
    ...POSITION_COLUMNS,
  ],
  from: finalOf('trainer_annotations'),
  example: 'SELECT step, count() AS branches FROM trainer_annotations GROUP BY step ORDER BY step',
};

const first = (value: string, type: string): string => `argMinIf(t.${value}, t._offset, t.type = '${type}' AND t.${value} IS NOT NULL)`;
const firstTime = (type: string): string => `argMinIf(${knownTime('t.time')}, t._offset, t.type = '${type}')`;

/** Batches of one project, the first decision of each kind counts; a rewind to n abandons later batches of older timelines. */
function batchRowsOf(source: ViewSource): string {
  const { db, project } = source;
  const rewinds = `(SELECT feed, groupArray((timeline, assumeNotNull(rewound_to))) AS rewinds FROM ${db}feed_events FINAL WHERE project = ${project} AND type = 'feed.rewound'${before(source)} GROUP BY feed)`;
  return (
    `(SELECT t.project AS project, any(nullIf(t.run, '')) AS run, t.feed AS feed, t.timeline AS timeline, assumeNotNull(t.n) AS n, ` +
    `${first('batch_id', 'batch.cut')} AS batch_id, ${first('algorithm', 'batch.cut')} AS algorithm, ${first('policy_version', 'batch.cut')} AS policy_version, ` +
    `${firstTime('batch.cut')} AS cut, ${firstTime('batch.committed')} AS committed, ${first('step', 'batch.committed')} AS step, ` +
    `argMaxIf(t.plan_id, t._offset, t.type = 'batch.leased' AND t.plan_id IS NOT NULL) AS plan_id, ` +
    `toBool(arrayExists(x -> x.1 > timeline AND x.2 < n, any(r.rewinds))) AS abandoned, argMinIf(t.data, t._offset, t.type = 'batch.cut') AS data ` +
    `FROM (SELECT project, run, feed, timeline, n, type, batch_id, algorithm, policy_version, step, plan_id, data, time, _offset FROM ${db}feed_events FINAL WHERE project = ${project} AND type LIKE 'batch.%'${before(source)}) AS t ` +
    `LEFT JOIN ${rewinds} AS r ON t.feed = r.feed GROUP BY t.project, t.feed, t.timeline, t.n)`
  );
}

const BATCH = [
  plain('project', 'tenant'),
  plain('run', 'run id, where the feed named one'),
  FEED,
  TIMELINE,
  plain('n', 'number of the batch; batch n trains step n', 'none'),
  plain('batch_id', 'id of the batch: a hash of what is in it'),
];

export const batches: View = {
  name: 'batches',
  about: 'Training batches of the feeds: when they were cut and committed.',
  columns: [
    ...BATCH,
    plain('algorithm', 'algorithm that prepared it'),
    plain('policy_version', 'policy version at the cut', 'none'),
    plain('cut', 'when it was cut; NULL when not known', 'µs'),
    plain('committed', 'when the trainer committed it; NULL while it has not or when not known', 'µs'),
    plain('step', 'optimizer step that trained on it', 'none'),
    plain('plan_id', 'plan of its last lease'),
    plain('abandoned', 'whether a rewind gave it up'),
    plain('data', 'the cut as JSON text: counts, handles of row and exclusion lists'),
  ],
  from: (source) => `FROM ${batchRowsOf(source)} AS t`,
  example: 'SELECT feed, n, algorithm, cut, committed FROM batches WHERE NOT abandoned ORDER BY feed, n',
};

export const batchRows: View = {
  name: 'batch_rows',
  about: 'The lineage: which branches each batch trained on, under which policy version, with which advantage.',
  columns: [
    plain('project', 'tenant'),
    maybeId('run', 'run id'),
    ROLLOUT,
    TRACE,
    plain('group', 'group id'),
    plain('env', 'environment id'),
    FEED,
    TIMELINE,
    plain('n', 'number of the batch', 'none'),
    plain('batch_id', 'id of the batch'),
    column('policy_version', 'b.policy_version', 'policy version at the cut', 'none'),
    column('step', 'b.step', 'optimizer step that trained on it; NULL while not committed', 'none'),
    column('abandoned', 'b.abandoned', 'whether a rewind gave the batch up'),
    plain('row_id', 'id of the row'),
    plain('leaf', 'leaf node of the branch', 'none'),
    column('rank', 'p.rank', 'data-parallel rank under the plan of the last lease', 'none'),
    column('micro_batch', 'p.micro_batch', 'micro-batch on that rank', 'none'),
    column('position', 'p.position', 'place in the micro-batch', 'none'),
    plain('seq_len', 'length of the row', 'tokens'),
    plain('trained', 'tokens with mask 1', 'tokens'),
    plain('advantage', 'advantage of the row; NULL where it varies along the tokens or there is none', 'none'),
    plain('weights', 'tokens per loss component and the sums of their weights, as JSON text'),
    plain('reward', 'reward of the trace, unshaped', 'none'),
    plain('policy_version_min', 'oldest policy version among its sampled tokens', 'none'),
    plain('policy_version_max', 'newest policy version among its sampled tokens', 'none'),
    plain('staleness', 'steps between the oldest sampling policy and this step', 'steps'),
  ],
  from: (source) =>
    `FROM (SELECT project, run, rollout, trace, \`group\`, env, feed, timeline, n, batch_id, row_id, leaf, seq_len, trained, advantage, weights, reward, policy_version_min, policy_version_max, staleness FROM ${source.db}batch_rows FINAL WHERE project = ${source.project}${before(source)}) AS t ` +
    `INNER JOIN ${batchRowsOf(source)} AS b ON t.feed = b.feed AND t.timeline = b.timeline AND t.n = b.n AND t.batch_id = b.batch_id ` +
    `LEFT JOIN (SELECT feed, timeline, n, plan_id, row_id, rank, micro_batch, position FROM ${source.db}batch_places FINAL WHERE project = ${source.project}${before(source)}) AS p ` +
    `ON t.feed = p.feed AND t.timeline = p.timeline AND t.n = p.n AND t.row_id = p.row_id AND b.plan_id = p.plan_id`,
  example: 'SELECT step, count() AS rows, sum(seq_len) AS tokens, avg(advantage) AS advantage FROM batch_rows GROUP BY step ORDER BY step',
  questions: [
    {
      asks: 'Which tokens did step 12 train on?',
      sql: 'SELECT r.row_id, n.index, n.token_ids, n.mask FROM batch_rows AS r JOIN nodes AS n ON r.run = n.run AND r.rollout = n.rollout AND r.trace = n.trace WHERE r.step = 12 AND NOT r.abandoned ORDER BY r.row_id, n.index',
    },
  ],
}; // prettier-ignore

export const droppedSamples: View = {
  name: 'dropped_samples',
  about: 'Samples a feed did not train on, and why.',
  columns: [
    plain('project', 'tenant'),
    maybeId('run', 'run id'),
    maybeId('rollout', 'rollout id; NULL when the whole group was left out'),
    maybeId('trace', 'trace id'),
    maybeNode('leaf', '_leaf', 'leaf node of the branch'),
    FEED,
    TIMELINE,
    plain('n', 'number of the batch that left it out; NULL when no batch did', 'none'),
    plain('batch_id', 'id of that batch'),
    plain('group', 'group id'),
    plain('reason', 'why it was left out'),
    plain('message', 'more about it'),
    plain('staleness', 'its staleness', 'steps'),
    plain('length', 'its length', 'tokens'),
    EXTRA,
    TIME,
  ],
  from: finalOf('dropped_samples'),
  example: 'SELECT feed, reason, count() AS dropped, sum(length) AS tokens FROM dropped_samples GROUP BY feed, reason',
};

export const feedDecisions: View = {
  name: 'feed_decisions',
  about: 'Every decision of every feed in order.',
  columns: [
    plain('project', 'tenant'),
    maybeId('run', 'run id'),
    FEED,
    TIMELINE,
    ...plains({ type: 'event type', n: ['number of the batch', 'none'], batch_id: 'id of the batch', holder: 'holder of the lease', step: ['optimizer step', 'none'] }),
    ...plains({ reason: 'reason', group: 'group id', data: 'the decision as JSON text', id: 'event id' }),
    TIME,
    ...POSITION_COLUMNS,
  ],
  from: finalOf('feed_events'),
  example: 'SELECT time, type, n, holder FROM feed_decisions ORDER BY time',
}; // prettier-ignore
