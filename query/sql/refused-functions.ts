/**
 * The SQL functions people may not call, with the reason they are told. Reviewed against system.functions of engine 26.7 together with
 * allowed-functions.ts; a function in neither list is refused as unknown.
 */
const REFUSED: readonly (readonly [reason: string, names: string])[] = [
  [
    'calls an outside model',
    `
  AIClassify AIExtract AIGenerate AITranslate aiClassify aiEmbed aiExtract aiGenerate aiTranslate
    `,
  ],
  [
    'tells about the server, its users or its sessions',
    `
  DATABASE FQDN SCHEMA authUser authenticatedUser buildId chdb connectionId connection_id currentDatabase currentProfiles currentQueryID
  currentRoles currentSchemas currentUser current_database current_query_id current_schemas current_user defaultProfiles defaultRoles
  displayName enabledProfiles enabledRoles filesystemAvailable filesystemCapacity filesystemUnreserved fullHostName getClientHTTPHeader
  getMacro getOSKernelVersion getServerPort hasThreadFuzzer hostName hostname initialQueryID initialQueryStartTime initial_query_id
  initial_query_start_time queryID query_id revision runningConcurrency serverUUID session_user shardCount shardNum tcpPort tid uptime
  user zookeeperSessionUptime
    `,
  ],
  [
    'works on maps of the earth, which no view holds',
    `
  MGRSToGeo MVTBoundingBox MVTBoundingBoxMercator MVTEncode MVTEncodeGeom ST_AsMVT ST_AsMVTGeom ST_LineFromWKB ST_MLineFromWKB
  ST_MPolyFromWKB ST_PointFromWKB ST_PolyFromWKB SVG UTMToGeo WKB WKT areaCartesian areaSpherical geoDistance geoToH3 geoToMGRS geoToUTM
  geohashDecode geohashEncode geohashesInBox geometryIntersectCartesian geometryIntersectSpherical greatCircleAngle greatCircleDistance
  h3CellAreaM2 h3CellAreaRads2 h3Distance h3EdgeAngle h3EdgeLengthKm h3EdgeLengthM h3ExactEdgeLengthKm h3ExactEdgeLengthM
  h3ExactEdgeLengthRads h3GetBaseCell h3GetDestinationIndexFromUnidirectionalEdge h3GetFaces h3GetIndexesFromUnidirectionalEdge
  h3GetOriginIndexFromUnidirectionalEdge h3GetPentagonIndexes h3GetRes0Indexes h3GetResolution h3GetUnidirectionalEdge
  h3GetUnidirectionalEdgeBoundary h3GetUnidirectionalEdgesFromHexagon h3HexAreaKm2 h3HexAreaM2 h3HexRing h3IndexesAreNeighbors
  h3IsPentagon h3IsResClassIII h3IsValid h3Line h3NumHexagons h3PointDistKm h3PointDistM h3PointDistRads h3PolygonToCells
  h3PolygonToCellsWithContainment h3ToCenterChild h3ToChildren h3ToGeo h3ToGeoBoundary h3ToParent h3ToString h3UnidirectionalEdgeIsValid
  h3kRing perimeterCartesian perimeterSpherical pointInEllipses pointInPolygon polygonAreaCartesian polygonAreaSpherical
  polygonConvexHullCartesian polygonPerimeterCartesian polygonPerimeterSpherical polygonsDistanceCartesian polygonsDistanceSpherical
  polygonsEqualsCartesian polygonsIntersectCartesian polygonsIntersectSpherical polygonsIntersectionCartesian
  polygonsIntersectionSpherical polygonsSymDifferenceCartesian polygonsSymDifferenceSpherical polygonsUnionCartesian
  polygonsUnionSpherical polygonsWithinCartesian polygonsWithinSpherical readWKB readWKBLineString readWKBMultiLineString
  readWKBMultiPolygon readWKBPoint readWKBPolygon readWKT readWKTLineString readWKTMultiLineString readWKTMultiPolygon readWKTPoint
  readWKTPolygon readWKTRing readWkb readWkt stringToH3 svg wkb wkt
    `,
  ],
  [
    'is internal to the engine',
    `
  __actionName __applyFilter __bitBoolMaskAnd __bitBoolMaskOr __bitSwapLastTwo __bitWrapperFunc __getScalar __patchPartitionID
  __scalarSubqueryResult __toYearCalendarOnly nested validateNestedArraySizes
    `,
  ],
  [
    'looks into the memory of the process',
    `
  addressToLine addressToLineWithInlines addressToSymbol demangle flameGraph
    `,
  ],
  [
    'waits or fails on purpose',
    `
  aggThrow sleep sleepEachRow
    `,
  ],
  [
    'reads files, models or outside services',
    `
  catboostEvaluate evalMLMethod file naiveBayesClassifier naiveBayesClassifierWithAllProbs naiveBayesClassifierWithProb showCertificate
    `,
  ],
  [
    'belongs to dictionaries, which are not part of a project',
    `
  dictGet dictGetAll dictGetChildren dictGetDate dictGetDateOrDefault dictGetDateTime dictGetDateTimeOrDefault dictGetDescendants
  dictGetFloat32 dictGetFloat32OrDefault dictGetFloat64 dictGetFloat64OrDefault dictGetHierarchy dictGetIPv4 dictGetIPv4OrDefault
  dictGetIPv6 dictGetIPv6OrDefault dictGetInt16 dictGetInt16OrDefault dictGetInt32 dictGetInt32OrDefault dictGetInt64
  dictGetInt64OrDefault dictGetInt8 dictGetInt8OrDefault dictGetKeys dictGetOrDefault dictGetOrNull dictGetRoot dictGetString
  dictGetStringOrDefault dictGetUInt16 dictGetUInt16OrDefault dictGetUInt32 dictGetUInt32OrDefault dictGetUInt64 dictGetUInt64OrDefault
  dictGetUInt8 dictGetUInt8OrDefault dictGetUUID dictGetUUIDOrDefault dictHas dictIsIn regionHierarchy regionIn regionToArea
  regionToCity regionToContinent regionToCountry regionToDistrict regionToName regionToPopulation regionToTopContinent
    `,
  ],
  [
    'works on query text, not on data',
    `
  formatQuery formatQueryOrNull formatQuerySingleLine formatQuerySingleLineOrNull fuzzQuery generateRandomStructure highlightQuery
  normalizeQuery normalizeQueryKeepNames normalizedQueryHash normalizedQueryHashKeepNames obfuscateQuery obfuscateQueryWithSeed
  tokenizeQuery
    `,
  ],
  [
    'runs output formats, some of which read schema files (toJSONString works)',
    `
  formatRow formatRowNoNewline groupFormat structureToCapnProtoSchema structureToProtobufSchema
    `,
  ],
  [
    'changes state outside the query',
    `
  generateSerialID logTrace
    `,
  ],
  [
    'reads tables or dictionaries by a name that is hidden in a value',
    `
  getMaxTableNameLengthForDatabase hasColumnInTable joinGet joinGetOrNull
    `,
  ],
  [
    'reads settings of the server',
    `
  getMergeTreeSetting getServerSetting getSetting getSettingOrDefault globalVariable
    `,
  ],
  [
    'tells about storage internals',
    `
  isMergeTreePartCoveredBy mergeTreePartInfo partitionID partitionId transactionID transactionLatestSnapshot transactionOldestSnapshot
    `,
  ],
  [
    'depends on how rows happen to be cut into blocks (use a window function)',
    `
  neighbor runningAccumulate runningDifference runningDifferenceStartingWithFirstValue
    `,
  ],
  [
    'keeps tags of time series in the query context',
    `
  timeSeriesCopyTag timeSeriesCopyTags timeSeriesExtractTag timeSeriesGroupToSamplingKey timeSeriesGroupToTags timeSeriesIdToGroup
  timeSeriesIdToTags timeSeriesIdToTagsGroup timeSeriesJoinTags timeSeriesRemoveAllTagsExcept timeSeriesRemoveTag timeSeriesRemoveTags
  timeSeriesReplaceTag timeSeriesStoreTags timeSeriesTagsGroupToTags timeSeriesTagsToGroup timeSeriesThrowDuplicateSeriesIf
    `,
  ],
];

/** Reason by lower-case name: a refused name is refused in any case. */
export const REFUSED_FUNCTIONS: ReadonlyMap<string, string> = new Map(
  REFUSED.flatMap(([reason, names]) =>
    names
      .trim()
      .split(/\s+/)
      .map((name) => [name.toLowerCase(), reason] as const),
  ),
);
