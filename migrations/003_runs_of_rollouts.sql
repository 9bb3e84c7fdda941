-- Which runs have rollouts, and from where on in each log partition: the projector writes it beside the ids of rollouts (tables/ids.ts); this is for the rows from before.

INSERT INTO {{whole ids}} (project, kind, id, run, rollout, _partition, _offset)
SETTINGS async_insert = 0, deduplicate_insert = 'disable', distributed_foreground_insert = 1
SELECT project, 'run', run, run, toString(_partition), _partition, min(_offset) FROM {{whole ids}} WHERE kind = 'rollout' GROUP BY project, run, _partition;
