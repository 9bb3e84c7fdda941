/**
 * The SQL functions people may call, reviewed against system.functions of engine 26.7. Generated once, then kept by hand: every function of the
 * engine is either here or in refused-functions.ts (functions.int.test.ts compares both with the running engine and fails until a new
 * version is reviewed). Rule of the review: a pure function of its arguments, or of time and randomness; no files, no network, no names of
 * tables or dictionaries hidden in values, nothing about the server. `*` marks names that match in any case.
 */
import { nameList } from './function-name-list.ts';

export const REVIEWED_ENGINE = '26.7';

export const SCALAR_FUNCTIONS = nameList([
  // Arithmetic
  `
  abs* avg2* byteSwap* divide divideDecimal divideOrNull gcd ifNotFinite intDiv intDivOrNull intDivOrZero isFinite isInfinite isNaN lcm
  max2* midpoint* min2* minus mod* modOrNull* modulo moduloLegacy moduloOrNull moduloOrZero multiply multiplyDecimal negate plus pmod*
  pmodOrNull* positiveModulo* positiveModuloOrNull* positive_modulo* positive_modulo_or_null* sqr*
  `,
  // Arrays
  `
  CARDINALITY* OCTET_LENGTH* array arrayAUC arrayAUCPR arrayAll arrayAutocorrelation arrayAvg arrayBottomK arrayCompact arrayConcat
  arrayCount arrayCumSum arrayCumSumNonNegative arrayDifference arrayDistinct arrayDotProduct arrayElement arrayElementOrNull
  arrayEnumerate arrayEnumerateDense arrayEnumerateDenseRanked arrayEnumerateUniq arrayEnumerateUniqRanked arrayExcept arrayExists
  arrayFill arrayFilter arrayFirst arrayFirstIndex arrayFirstOrNull arrayFlatten arrayFold arrayIntersect arrayJaccardIndex arrayJoin
  arrayLast arrayLastIndex arrayLastOrNull arrayLevenshteinDistance arrayLevenshteinDistanceWeighted arrayMap arrayMax arrayMin
  arrayNormalizedGini arrayPRAUC arrayPartialReverseSort arrayPartialShuffle* arrayPartialSort arrayPopBack arrayPopFront arrayProduct
  arrayPushBack arrayPushFront arrayROCAUC arrayRandomSample arrayReduce arrayReduceInRanges arrayRemove arrayResize arrayReverse
  arrayReverseFill arrayReverseSort arrayReverseSplit arrayRotateLeft arrayRotateRight arrayShiftLeft arrayShiftRight arrayShingles
  arrayShuffle* arraySimilarity arraySlice arraySort arraySplit arraySum arraySymmetricDifference arrayTopK arrayTranspose arrayUnion
  arrayUniq arrayWithConstant arrayZip arrayZipUnaligned array_remove* countEqual empty emptyArrayDate emptyArrayDateTime
  emptyArrayFloat32 emptyArrayFloat64 emptyArrayInt16 emptyArrayInt32 emptyArrayInt64 emptyArrayInt8 emptyArrayString emptyArrayToSingle
  emptyArrayUInt16 emptyArrayUInt32 emptyArrayUInt64 emptyArrayUInt8 flatten* has hasAll hasAny hasSubstr indexOf indexOfAssumeSorted
  length* notEmpty randomHadamardTransform range replicate reverse* unnest*
  `,
  // Bitmap
  `
  bitmapAnd bitmapAndCardinality bitmapAndnot bitmapAndnotCardinality bitmapBuild bitmapCardinality bitmapContains bitmapHasAll
  bitmapHasAny bitmapMax bitmapMin bitmapOr bitmapOrCardinality bitmapSubsetInRange bitmapSubsetLimit bitmapToArray bitmapTransform
  bitmapXor bitmapXorCardinality subBitmap
  `,
  // Bit
  `
  bitAnd bitCount bitHammingDistance bitNot bitOr bitRotateLeft bitRotateRight bitShiftLeft bitShiftRight bitSlice bitTest bitTestAll
  bitTestAny bitXor
  `,
  // Comparison
  `
  equals globalIn globalInIgnoreSet globalNotIn globalNotInIgnoreSet globalNotNullIn globalNotNullInIgnoreSet globalNullIn
  globalNullInIgnoreSet greater greaterOrEquals in inIgnoreSet isDistinctFrom isNotDistinctFrom less lessOrEquals notEquals notIn
  notInIgnoreSet notNullIn notNullInIgnoreSet nullIn nullInIgnoreSet
  `,
  // Conditional
  `
  caseWithoutExpr caseWithoutExpression clamp greatest* if* least* multiIf
  `,
  // Dates and Times
  `
  DATE_DIFF DATE_FORMAT* DATE_TRUNC* DAY* DAYOFMONTH* DAYOFWEEK* DAYOFYEAR* FROM_DAYS* FROM_UNIXTIME* HOUR* LAST_DAY* MICROSECOND*
  MILLISECOND* MINUTE* MONTH* NANOSECOND* QUARTER* SECOND* TIMESTAMP_DIFF TO_DAYS* UTCTimestamp* UTC_timestamp* YEAR* YYYYMMDDToDate*
  YYYYMMDDToDate32* YYYYMMDDhhmmssToDateTime* YYYYMMDDhhmmssToDateTime64 addDate* addDays addHours addInterval addMicroseconds
  addMilliseconds addMinutes addMonths addNanoseconds addQuarters addSeconds addTupleOfIntervals addWeeks addYears age* changeDay
  changeHour changeMinute changeMonth changeSecond changeYear curdate* current_date* current_timestamp* dateDiff* dateName* dateTrunc
  date_bin* date_diff formatDateTime formatDateTimeInJodaSyntax fromDaysSinceYearZero fromDaysSinceYearZero32 fromModifiedJulianDay
  fromModifiedJulianDayOrNull fromUTCTimestamp fromUnixTimestamp fromUnixTimestampInJodaSyntax from_utc_timestamp* localtime*
  localtimestamp* makeDate* makeDate32* makeDateTime* makeDateTime64* monthName* now* now64* nowInBlock nowInBlock64 serverTimeZone
  serverTimezone subDate* subtractDays subtractHours subtractInterval subtractMicroseconds subtractMilliseconds subtractMinutes
  subtractMonths subtractNanoseconds subtractQuarters subtractSeconds subtractTupleOfIntervals subtractWeeks subtractYears timeDiff*
  timeSlot timeSlots timeZone* timeZoneOf timeZoneOffset time_bucket* timestamp* timestampDiff timestamp_diff timezone* timezoneOf
  timezoneOffset toDayOfMonth toDayOfWeek toDayOfYear toDaysInMonth toDaysSinceYearZero toHour toISOWeek toISOYear toLastDayOfMonth
  toLastDayOfWeek toMicrosecond toMillisecond toMinute toModifiedJulianDay toModifiedJulianDayOrNull toMonday toMonth
  toMonthNumSinceEpoch toNanosecond toQuarter toRelativeDayNum toRelativeHourNum toRelativeMinuteNum toRelativeMonthNum
  toRelativeQuarterNum toRelativeSecondNum toRelativeWeekNum toRelativeYearNum toSecond toStartOfDay toStartOfFifteenMinutes
  toStartOfFiveMinute toStartOfFiveMinutes toStartOfHour toStartOfISOYear toStartOfInterval toStartOfMicrosecond toStartOfMillisecond
  toStartOfMinute toStartOfMonth toStartOfNanosecond toStartOfQuarter toStartOfSecond toStartOfTenMinutes toStartOfWeek toStartOfYear
  toTimeWithFixedDate toTimeZone toTimezone toUTCTimestamp toUnixTimestamp toWeek toYYYYMM toYYYYMMDD toYYYYMMDDhhmmss toYear
  toYearNumSinceEpoch toYearWeek to_utc_timestamp* today* week* yearweek* yesterday
  `,
  // Distance
  `
  L1Distance L1Norm L1Normalize L2Distance L2DistanceTransposed L2DistanceTransposedQuantized L2Norm L2Normalize L2SquaredDistance
  L2SquaredNorm LinfDistance LinfNorm LinfNormalize LpDistance LpNorm LpNormalize cosineDistance cosineDistanceTransposed
  cosineDistanceTransposedQuantized distanceCosine* distanceCosineTransposed* distanceL1* distanceL2* distanceL2Squared*
  distanceL2Transposed* distanceLinf* distanceLp* dotProductTransposed dotProductTransposedQuantized normL1* normL2* normL2Squared*
  normLinf* normLp* normalizeL1* normalizeL2* normalizeLinf* normalizeLp* scalarProductTransposed*
  `,
  // Encoding
  `
  bin* bitPositionsToArray bitmaskToArray bitmaskToList char* hex* hilbertDecode hilbertEncode mortonDecode mortonEncode sqid sqidDecode
  sqidEncode unbin* unhex*
  `,
  // Encryption
  `
  HMAC* aes_decrypt_mysql aes_encrypt_mysql decrypt encrypt tryDecrypt
  `,
  // Financial
  `
  financialInternalRateOfReturn financialInternalRateOfReturnExtended financialNetPresentValue financialNetPresentValueExtended
  `,
  // Hash
  `
  MD4 MD5 RIPEMD160 SHA1 SHA224 SHA256 SHA384 SHA512 SHA512_256 URLHash cityHash64 farmFingerprint64 farmHash64 gccMurmurHash halfMD5
  hiveHash icebergHash intHash32 intHash64 javaHash javaHashUTF16LE jumpConsistentHash kafkaMurmurHash keccak256 kostikConsistentHash
  metroHash64 murmurHash2_32 murmurHash2_64 murmurHash3_128 murmurHash3_32 murmurHash3_64 ngramMinHash ngramMinHashArg
  ngramMinHashArgCaseInsensitive ngramMinHashArgCaseInsensitiveUTF8 ngramMinHashArgUTF8 ngramMinHashCaseInsensitive
  ngramMinHashCaseInsensitiveUTF8 ngramMinHashUTF8 ngramSimHash ngramSimHashCaseInsensitive ngramSimHashCaseInsensitiveUTF8
  ngramSimHashUTF8 sipHash128 sipHash128Keyed sipHash128Reference sipHash128ReferenceKeyed sipHash64 sipHash64Keyed wordShingleMinHash
  wordShingleMinHashArg wordShingleMinHashArgCaseInsensitive wordShingleMinHashArgCaseInsensitiveUTF8 wordShingleMinHashArgUTF8
  wordShingleMinHashCaseInsensitive wordShingleMinHashCaseInsensitiveUTF8 wordShingleMinHashUTF8 wordShingleSimHash
  wordShingleSimHashCaseInsensitive wordShingleSimHashCaseInsensitiveUTF8 wordShingleSimHashUTF8 wyHash64 xxHash32 xxHash64
  xxHash64Spark xxh3 xxh3_128 yandexConsistentHash
  `,
  // IP Address
  `
  INET6_ATON* INET6_NTOA* INET_ATON* INET_NTOA* IPv4CIDRToRange IPv4NumToString IPv4NumToStringClassC IPv4StringToNum
  IPv4StringToNumOrDefault IPv4StringToNumOrNull IPv4ToIPv6 IPv6CIDRToRange IPv6NumToString IPv6StringToNum IPv6StringToNumOrDefault
  IPv6StringToNumOrNull cutIPv6 isIPAddressInRange isIPv4String isIPv6String toIPv4 toIPv4OrDefault toIPv4OrNull toIPv4OrZero toIPv6
  toIPv6OrDefault toIPv6OrNull toIPv6OrZero
  `,
  // Internal
  `
  _CAST* caseWithExpr caseWithExpression
  `,
  // JSON
  `
  JSONAllPaths JSONAllPathsWithTypes JSONAllValues JSONArrayLength JSONDynamicPaths JSONDynamicPathsWithTypes JSONExtract
  JSONExtractArrayRaw JSONExtractArrayRawCaseInsensitive JSONExtractBool JSONExtractBoolCaseInsensitive JSONExtractCaseInsensitive
  JSONExtractFloat JSONExtractFloatCaseInsensitive JSONExtractInt JSONExtractIntCaseInsensitive JSONExtractKeys JSONExtractKeysAndValues
  JSONExtractKeysAndValuesCaseInsensitive JSONExtractKeysAndValuesRaw JSONExtractKeysAndValuesRawCaseInsensitive
  JSONExtractKeysCaseInsensitive JSONExtractRaw JSONExtractRawCaseInsensitive JSONExtractString JSONExtractStringCaseInsensitive
  JSONExtractUInt JSONExtractUIntCaseInsensitive JSONHas JSONKey JSONLength JSONMergePatch JSONSharedDataPaths
  JSONSharedDataPathsWithTypes JSONType JSON_ARRAY_LENGTH* JSON_EXISTS JSON_QUERY JSON_VALUE dynamicElement dynamicType
  isDynamicElementInSharedData isValidJSON jsonMergePatch prettyPrintJSON simpleJSONExtractBool simpleJSONExtractFloat
  simpleJSONExtractInt simpleJSONExtractRaw simpleJSONExtractString simpleJSONExtractUInt simpleJSONHas toJSONString
  visitParamExtractBool visitParamExtractFloat visitParamExtractInt visitParamExtractRaw visitParamExtractString visitParamExtractUInt
  visitParamHas
  `,
  // Logical
  `
  and not* or xor
  `,
  // Map
  `
  MAP_FROM_ARRAYS extractKeyValuePairs extractKeyValuePairsWithEscaping map mapAdd mapAll mapApply mapConcat mapContains mapContainsKey
  mapContainsKeyLike mapContainsValue mapContainsValueLike mapExists mapExtractKeyLike mapExtractValueLike mapFilter mapFromArrays
  mapFromString mapKeys mapPartialReverseSort mapPartialSort mapPopulateSeries mapReverseSort mapSort mapSubtract mapUpdate mapValues
  str_to_map*
  `,
  // Mathematical
  `
  acos* acosh asin* asinh atan* atan2* atanh cbrt cos* cosh degrees* e erf erfc exp* exp10 exp2 factorial* hypot* intExp10 intExp2
  isPrime isProbablePrime lgamma ln* log* log10* log1p log2* pi* pow* power* proportionsZTest radians* sigmoid sign* sin* sinh sqrt*
  tan* tanh* tgamma widthBucket width_bucket*
  `,
  // Null
  `
  assumeNotNull coalesce* firstNonDefault* ifNull* isNotNull isNull* isNullable isZeroOrNull nullIf* toNullable
  `,
  // NumericIndexedVector
  `
  numericIndexedVectorAllValueSum numericIndexedVectorBuild numericIndexedVectorCardinality numericIndexedVectorGetValue
  numericIndexedVectorPointwiseAdd numericIndexedVectorPointwiseDivide numericIndexedVectorPointwiseEqual
  numericIndexedVectorPointwiseGreater numericIndexedVectorPointwiseGreaterEqual numericIndexedVectorPointwiseLess
  numericIndexedVectorPointwiseLessEqual numericIndexedVectorPointwiseMultiply numericIndexedVectorPointwiseNotEqual
  numericIndexedVectorPointwiseSubtract numericIndexedVectorShortDebugString numericIndexedVectorToMap
  `,
  // Other
  `
  FORMAT_BYTES* MACNumToString MACStringToNum MACStringToOUI bar blockNumber blockSerializedSize blockSize byteSize colorOKLABToSRGB
  colorOKLCHToSRGB colorSRGBToOKLAB colorSRGBToOKLCH countDigits defaultValueOfArgumentType defaultValueOfTypeName digits
  dumpColumnStructure errorCodeToName finalizeAggregation flipCoordinates formatReadableDecimalSize formatReadableQuantity
  formatReadableSize formatReadableTimeDelta getSizeOfEnumType getSubcolumn getTypeSerializationStreams icebergBucket icebergTruncate
  identity ignore indexHint initializeAggregation isConstant isDecimalOverflow lowCardinalityIndices lowCardinalityKeys materialize
  minSampleSizeContinous minSampleSizeContinuous minSampleSizeConversion parseReadableSize parseReadableSizeOrNull
  parseReadableSizeOrZero parseTimeDelta rowNumberInAllBlocks rowNumberInBlock throwIf toColumnTypeName toTypeName transform
  variantElement variantType version* visibleWidth
  `,
  // QBit
  `
  dequantizeInt8ToBFloat16 quantizeBFloat16ToInt8
  `,
  // Random Number
  `
  fuzzBits rand* rand32 rand64 randBernoulli randBinomial randCanonical randChiSquared randConstant randExponential randFisherF
  randLogNormal randNegativeBinomial randNormal randPoisson randStudentT randUniform randomFixedString randomPrintableASCII randomString
  randomStringUTF8
  `,
  // Rounding
  `
  ceil* ceiling* floor* round* roundAge roundBankers roundDown roundDuration roundToExp2 trunc* truncate*
  `,
  // String Replacement
  `
  REGEXP_REPLACE* format overlay* overlayUTF8 printf regexpQuoteMeta replace* replaceAll replaceOne replaceRegexpAll replaceRegexpOne
  translate translateUTF8
  `,
  // String Search
  `
  REGEXP_MATCHES* countMatches countMatchesCaseInsensitive countSubstrings* countSubstringsCaseInsensitive
  countSubstringsCaseInsensitiveUTF8 extract extractAll extractAllGroupsHorizontal extractGroups hasAllToken hasAllTokens hasAnyToken
  hasAnyTokens hasPhrase hasSubsequence* hasSubsequenceCaseInsensitive* hasSubsequenceCaseInsensitiveUTF8* hasSubsequenceUTF8* hasToken
  hasTokenCaseInsensitive* hasTokenCaseInsensitiveOrNull* hasTokenOrNull highlight ilike instr* like locate* match matchPhrase
  multiFuzzyMatchAllIndices multiFuzzyMatchAny multiFuzzyMatchAnyIndex multiMatchAllIndices multiMatchAny multiMatchAnyIndex
  multiSearchAllPositions multiSearchAllPositionsCaseInsensitive multiSearchAllPositionsCaseInsensitiveUTF8 multiSearchAllPositionsUTF8
  multiSearchAny multiSearchAnyCaseInsensitive multiSearchAnyCaseInsensitiveUTF8 multiSearchAnyUTF8 multiSearchFirstIndex
  multiSearchFirstIndexCaseInsensitive multiSearchFirstIndexCaseInsensitiveUTF8 multiSearchFirstIndexUTF8 multiSearchFirstPosition
  multiSearchFirstPositionCaseInsensitive multiSearchFirstPositionCaseInsensitiveUTF8 multiSearchFirstPositionUTF8 ngramDistance
  ngramDistanceCaseInsensitive ngramDistanceCaseInsensitiveUTF8 ngramDistanceUTF8 ngramSearch ngramSearchCaseInsensitive
  ngramSearchCaseInsensitiveUTF8 ngramSearchUTF8 notILike notLike position* positionCaseInsensitive positionCaseInsensitiveUTF8
  positionUTF8
  `,
  // String Splitting
  `
  alphaTokens arrayStringConcat array_to_string* extractAllGroups extractAllGroupsVertical naiveBayesNgrams ngrams reverseBySeparator
  splitByAlpha splitByChar splitByNonAlpha splitByRegexp splitByString splitByWhitespace tokens tokensForLikePattern
  `,
  // String
  `
  CHARACTER_LENGTH* CHAR_LENGTH* CRC32* CRC32IEEE* CRC64* FROM_BASE64* NATURAL_SORT_KEY* REGEXP_EXTRACT* REGEXP_SUBSTR* SUBSTRING_INDEX*
  TO_BASE64* appendTrailingCharIfAbsent ascii* base32Decode base32Encode base58Decode base58Encode base64Decode base64Encode
  base64URLDecode base64URLEncode basename byteHammingDistance byteSlice* caseFoldUTF8 compareSubstrings concat* concatAssumeInjective
  concatWithSeparator concatWithSeparatorAssumeInjective concat_ws* conv convertCharset damerauLevenshteinDistance decodeHTMLComponent
  decodeXMLComponent editDistance editDistanceUTF8 encodeXMLComponent endsWith endsWithCaseInsensitive endsWithCaseInsensitiveUTF8
  endsWithUTF8 extractTextFromHTML firstLine initcap* initcapUTF8 isASCII isValidASCII isValidUTF8 jaroSimilarity jaroWinklerSimilarity
  lcase* left* leftPad leftPadUTF8 leftUTF8 lengthUTF8 levenshteinDistance levenshteinDistanceUTF8 lower* lowerUTF8 lpad* ltrim mid*
  mismatches naturalSortKey normalizeUTF8NFC normalizeUTF8NFD normalizeUTF8NFKC normalizeUTF8NFKCCasefold normalizeUTF8NFKD
  regexpExtract regexpInstr* regexpPosition regexp_instr* removeAccentsUTF8 removeDiacriticsUTF8 repeat* reverseUTF8 right* rightPad
  rightPadUTF8 rightUTF8 rpad* rtrim soundex* space* sparseGrams sparseGramsHashes sparseGramsHashesUTF8 sparseGramsUTF8 startsWith
  startsWithCaseInsensitive startsWithCaseInsensitiveUTF8 startsWithUTF8 stringBytesEntropy stringBytesUniq stringJaccardIndex
  stringJaccardIndexUTF8 substr* substring* substringIndex substringIndexUTF8 substringUTF8 toValidUTF8 trim trimBoth trimLeft trimRight
  tryBase32Decode tryBase58Decode tryBase64Decode tryBase64URLDecode ucase* upper* upperUTF8
  `,
  // Time Series
  `
  seriesDecomposeSTL seriesOutliersDetectTukey timeSeriesFromGrid timeSeriesRange
  `,
  // Time Window
  `
  hop hopEnd hopStart tumble tumbleEnd tumbleStart windowID
  `,
  // Tuple
  `
  dotProduct flattenTuple scalarProduct* tuple tupleConcat tupleDivide tupleDivideByNumber tupleElement tupleHammingDistance tupleIntDiv
  tupleIntDivByNumber tupleIntDivOrZero tupleIntDivOrZeroByNumber tupleMinus tupleModulo tupleModuloByNumber tupleMultiply
  tupleMultiplyByNumber tupleNames tupleNegate tuplePlus tuplePositiveModuloByNumber tupleToNameValuePairs vectorDifference* vectorSum*
  `,
  // Type Conversion
  `
  CAST* DATE* TO_UNIXTIME* accurateCast accurateCastOrDefault accurateCastOrNull fromUnixTimestamp64Micro fromUnixTimestamp64Milli
  fromUnixTimestamp64Nano fromUnixTimestamp64Second parseDateTime parseDateTime32BestEffort parseDateTime32BestEffortOrNull
  parseDateTime32BestEffortOrZero parseDateTime64 parseDateTime64BestEffort parseDateTime64BestEffortOrNull
  parseDateTime64BestEffortOrZero parseDateTime64BestEffortUS parseDateTime64BestEffortUSOrNull parseDateTime64BestEffortUSOrZero
  parseDateTime64InJodaSyntax parseDateTime64InJodaSyntaxOrNull parseDateTime64InJodaSyntaxOrZero parseDateTime64OrNull
  parseDateTime64OrZero parseDateTimeBestEffort parseDateTimeBestEffortOrNull parseDateTimeBestEffortOrZero parseDateTimeBestEffortUS
  parseDateTimeBestEffortUSOrNull parseDateTimeBestEffortUSOrZero parseDateTimeInJodaSyntax parseDateTimeInJodaSyntaxOrNull
  parseDateTimeInJodaSyntaxOrZero parseDateTimeOrNull parseDateTimeOrZero reinterpret reinterpretAsDate reinterpretAsDateTime
  reinterpretAsFixedString reinterpretAsFloat32 reinterpretAsFloat64 reinterpretAsInt128 reinterpretAsInt16 reinterpretAsInt256
  reinterpretAsInt32 reinterpretAsInt64 reinterpretAsInt8 reinterpretAsString reinterpretAsUInt128 reinterpretAsUInt16
  reinterpretAsUInt256 reinterpretAsUInt32 reinterpretAsUInt64 reinterpretAsUInt8 reinterpretAsUUID str_to_date* toBFloat16
  toBFloat16OrNull toBFloat16OrZero toBool toDate toDate32 toDate32OrDefault toDate32OrNull toDate32OrZero toDateOrDefault toDateOrNull
  toDateOrZero toDateTime toDateTime32 toDateTime64 toDateTime64OrDefault toDateTime64OrNull toDateTime64OrZero toDateTimeOrDefault
  toDateTimeOrNull toDateTimeOrZero toDecimal128 toDecimal128OrDefault toDecimal128OrNull toDecimal128OrZero toDecimal256
  toDecimal256OrDefault toDecimal256OrNull toDecimal256OrZero toDecimal32 toDecimal32OrDefault toDecimal32OrNull toDecimal32OrZero
  toDecimal64 toDecimal64OrDefault toDecimal64OrNull toDecimal64OrZero toDecimalString* toFixedString toFloat32 toFloat32OrDefault
  toFloat32OrNull toFloat32OrZero toFloat64 toFloat64OrDefault toFloat64OrNull toFloat64OrZero toInt128 toInt128OrDefault toInt128OrNull
  toInt128OrZero toInt16 toInt16OrDefault toInt16OrNull toInt16OrZero toInt256 toInt256OrDefault toInt256OrNull toInt256OrZero toInt32
  toInt32OrDefault toInt32OrNull toInt32OrZero toInt64 toInt64OrDefault toInt64OrNull toInt64OrZero toInt8 toInt8OrDefault toInt8OrNull
  toInt8OrZero toInterval toIntervalDay toIntervalHour toIntervalMicrosecond toIntervalMillisecond toIntervalMinute toIntervalMonth
  toIntervalNanosecond toIntervalQuarter toIntervalSecond toIntervalWeek toIntervalYear toLowCardinality toString toStringCutToZero
  toTime toTime64 toTime64OrNull toTime64OrZero toTimeOrNull toTimeOrZero toUInt128 toUInt128OrDefault toUInt128OrNull toUInt128OrZero
  toUInt16 toUInt16OrDefault toUInt16OrNull toUInt16OrZero toUInt256 toUInt256OrDefault toUInt256OrNull toUInt256OrZero toUInt32
  toUInt32OrDefault toUInt32OrNull toUInt32OrZero toUInt64 toUInt64OrDefault toUInt64OrNull toUInt64OrZero toUInt8 toUInt8OrDefault
  toUInt8OrNull toUInt8OrZero toUUID toUUIDOrZero toUnixTimestamp64Micro toUnixTimestamp64Milli toUnixTimestamp64Nano
  toUnixTimestamp64Second
  `,
  // URL
  `
  URLHierarchy URLPathHierarchy cutFragment cutQueryString cutQueryStringAndFragment cutToFirstSignificantSubdomain
  cutToFirstSignificantSubdomainCustom cutToFirstSignificantSubdomainCustomRFC cutToFirstSignificantSubdomainCustomWithWWW
  cutToFirstSignificantSubdomainCustomWithWWWRFC cutToFirstSignificantSubdomainRFC cutToFirstSignificantSubdomainWithWWW
  cutToFirstSignificantSubdomainWithWWWRFC cutURLParameter cutWWW decodeURLComponent decodeURLFormComponent domain domainRFC
  domainWithoutWWW domainWithoutWWWRFC encodeURLComponent encodeURLFormComponent extractURLParameter extractURLParameterNames
  extractURLParameters firstSignificantSubdomain firstSignificantSubdomainCustom firstSignificantSubdomainCustomRFC
  firstSignificantSubdomainRFC fragment netloc path pathFull port portRFC protocol queryString queryStringAndFragment topLevelDomain
  topLevelDomainRFC
  `,
  // UUID
  `
  UUIDNumToString UUIDStringToNum UUIDToNum UUIDv7ToDateTime dateTime64ToSnowflakeID dateTimeToSnowflakeID dateTimeToUUIDv7
  generateSnowflakeID generateUUIDv4 generateUUIDv7 snowflakeIDToDateTime snowflakeIDToDateTime64 toUUIDOrDefault toUUIDOrNull
  `,
]);
