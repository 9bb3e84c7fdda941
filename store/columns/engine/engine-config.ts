/**
 * The engine's server configuration.
 * - fsync_after_insert: an acknowledged part is on the disk, not only in the page cache, so it survives a loss of power too.
 * - compression: a fresh part is small and soon merged, so LZ4 (a fifth of the CPU of an insert saved); what lasts is ZSTD.
 * - old_parts_lifetime: what was merged stays until the kernel has written the merged part out (after 30 s by default), twice over, and not eight minutes.
 * - small pools: the engine shares the machine with the edge, and background merges run at the engine's low priority anyway.
 */
export const ENGINE_CONFIG = `<clickhouse>
  <display_name>tapedeck</display_name>
  <background_pool_size>4</background_pool_size>
  <background_schedule_pool_size>4</background_schedule_pool_size>
  <mark_cache_size>268435456</mark_cache_size>
  <compression>
    <case>
      <min_part_size>67108864</min_part_size>
      <min_part_size_ratio>0</min_part_size_ratio>
      <method>zstd</method>
      <level>1</level>
    </case>
  </compression>
  <merge_tree>
    <fsync_after_insert>1</fsync_after_insert>
    <fsync_part_directory>1</fsync_part_directory>
    <old_parts_lifetime>60</old_parts_lifetime>
    <number_of_free_entries_in_pool_to_execute_mutation>2</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>2</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>2</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
  </merge_tree>
</clickhouse>
`;
