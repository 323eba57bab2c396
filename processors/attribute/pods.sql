-- Splits the charges of machines without GPUs over their pods and tasks, as the provider itself
-- does (shares.sql), and what no pod has over the machine itself: one part each, over the
-- charge's own period. Machines with GPUs are in split.sql.
--
-- Parameters: base (the first load number to write), load (the charges' load), days, first.
INSERT INTO idlewatt_store.allocations (Load, ChargeLoad, ChargeObject, ChargeRow, Day, Hour, Part, x_AllocationKind,
    x_AllocationQuality, Cause, Owner, OwnerConfidence, GpuHours, ConsumedQuantity, PricingQuantity, ListCost, ContractedCost,
    EffectiveCost, BilledCost, TagSet, AllocatedTags)
WITH
    bill AS (
        SELECT x_Object, x_Row, toDate(ChargePeriodStart) AS Day, assumeNotNull(ResourceId) AS Resource,
            ChargePeriodStart AS s, greatest(ChargePeriodEnd, ChargePeriodStart + INTERVAL 1 MILLISECOND) AS e,
            ConsumedQuantity, PricingQuantity, ListCost, ContractedCost, EffectiveCost, BilledCost
        FROM idlewatt_store.charges
        WHERE x_Load = {load: UInt64} AND toDate(ChargePeriodStart) IN {days: Array(Date)} AND ResourceType = 'Virtual Machine'
            AND isNotNull(ResourceId) AND ChargeCategory = 'Usage' AND NOT ifNull(x_GpuHours > 0, 0) AND isNull(x_SplitParentId)),
    {{- template "shares"}}
    weighed AS (
        SELECT b.*, h.pods AS pods, arrayMap(p -> p.4, pods) AS weights
        FROM bill AS b
        INNER JOIN
        (
            SELECT Resource, s, e, arraySort(groupArray((Pod, TagSet, PodTags, Weight))) AS pods FROM shares GROUP BY Resource, s, e
        ) AS h ON h.Resource = b.Resource AND h.s = b.s AND h.e = b.e)
SELECT {base: UInt64} + toUInt64(Day - {first: Date}), {load: UInt64}, x_Object, x_Row, Day, s, toUInt32(k), 'other', 'provider',
    if(pod.1 = '', 'not_split', 'split'), pod.1, if(pod.1 = '', '', 'provider'), toDecimal128(0, 18), q_, p_, l_, c_, e_, assumeNotNull(b_), pod.2, pod.3
FROM
(
    SELECT *, {{split "ConsumedQuantity" "weights"}} AS consumed_parts, {{split "PricingQuantity" "weights"}} AS priced_parts,
        {{split "ListCost" "weights"}} AS list_parts, {{split "ContractedCost" "weights"}} AS contracted_parts,
        {{split "EffectiveCost" "weights"}} AS effective_parts, {{split "BilledCost" "weights"}} AS billed_parts
    FROM weighed
)
ARRAY JOIN arrayEnumerate(weights) AS k, pods AS pod, consumed_parts AS q_, priced_parts AS p_, list_parts AS l_,
    contracted_parts AS c_, effective_parts AS e_, billed_parts AS b_
