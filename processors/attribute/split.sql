-- Splits the charges of running GPU machines of one load over hours, and each hour over the
-- states and owners of its GPUs. Weights are whole numbers, so that the parts do not depend
-- on the order of anything; amounts are divided by the largest-remainder rule. In an hour of
-- which neither telemetry nor a scheduler tells anything, the provider's own split over pods
-- decides, if the bill has one (shares.sql).
--
-- Parameters: base (the first load number to write), load (the charges' load), days, first.
INSERT INTO idlewatt_store.allocations (Load, ChargeLoad, ChargeObject, ChargeRow, Day, Hour, Part, x_AllocationKind,
    x_AllocationQuality, State, Cause, JobScheduler, JobCluster, JobId, JobTask, JobAttempt, Owner, OwnerConfidence, Project, Team,
    Environment, Node, Uuid, Instance, IntervalStart, IntervalEnd, GpuHours, ConsumedQuantity, PricingQuantity, ListCost,
    ContractedCost, EffectiveCost, BilledCost, TagSet, AllocatedTags)
WITH
    -- GPU time in units that divide evenly by every share up to 16ths.
    720720 AS unit,
    bill AS (
        SELECT x_Object, x_Row, toDate(ChargePeriodStart) AS Day, assumeNotNull(ResourceId) AS Resource,
            ChargePeriodStart AS s, greatest(ChargePeriodEnd, ChargePeriodStart + INTERVAL 1 MILLISECOND) AS e,
            assumeNotNull(x_GpuHours) AS hours, if(x_GpuCount > 0, assumeNotNull(x_GpuCount), toDecimal128(1, 18)) AS gpus,
            ConsumedQuantity, PricingQuantity, ListCost, ContractedCost, EffectiveCost, BilledCost,
            toStartOfHour(s) AS h0, dateDiff('hour', h0, toStartOfHour(e - INTERVAL 1 MILLISECOND)) + 1 AS n
        FROM idlewatt_store.gpu_charges
        WHERE x_Load = {load: UInt64} AND toDate(ChargePeriodStart) IN {days: Array(Date)}),
    {{- if .Pods}}{{template "shares"}}{{end}}
    seen AS (SELECT * FROM idlewatt_store.seen WHERE Pass = {base: UInt64}), -- by seen.sql
    -- Level one: the charge over its hours, by the hours in which the machine is known to have run.
    hourly AS (
        SELECT x_Object, x_Row, Day, Resource, s, e, gpus, Hour, Seen, quality AS spread, assumeNotNull(h_) AS Hours, q_ AS Consumed, p_ AS Priced,
            l_ AS List, c_ AS Contracted, e_ AS Effective, b_ AS Billed
        FROM
        (
        SELECT x_Object, x_Row, Day, Resource, s, e, gpus, hs, known, w, quality,
            {{split "hours" "w"}} AS hours_, {{split "ConsumedQuantity" "w"}} AS consumed_, {{split "PricingQuantity" "w"}} AS priced_,
            {{split "ListCost" "w"}} AS list_, {{split "ContractedCost" "w"}} AS contracted_,
            {{split "EffectiveCost" "w"}} AS effective_, {{split "BilledCost" "w"}} AS billed_
        FROM
        (
            SELECT *, arraySum(caps) AS total, arraySum(arrayMap((c, o) -> if(o, c, 0), caps, known)) AS ran,
                toInt256(divideDecimal(multiplyDecimal(toDecimal256(hours, 18), toDecimal256(3600000, 0), 18), toDecimal256(gpus, 18), 0)) AS billed,
                multiIf(n = 1, [toInt256(1)],
                    billed >= total OR ran = 0, caps,
                    billed <= ran, arrayMap((c, o) -> if(o, c, toInt256(0)), caps, known),
                    arrayMap((c, o) -> if(o, c * (total - ran), c * (billed - ran)), caps, known)) AS w,
                multiIf(n = 1, '', ran = 0 AND billed < total, 'spread', '') AS quality
            FROM
            (
                SELECT b.*, groupArray(t.Hour) AS hs,
                    groupArray(toInt256(dateDiff('millisecond', greatest(b.s, t.Hour), least(b.e, t.Hour + INTERVAL 1 HOUR)))) AS caps,
                    groupArray(t.Known) AS known
                FROM bill AS b
                INNER JOIN
                (
                    SELECT x_Object, x_Row, Hour, (Resource, Hour) IN (SELECT Resource, toDateTime64(Hour, 3, 'UTC') FROM seen) AS Known
                    FROM (SELECT x_Object, x_Row, Resource, arrayJoin(arrayMap(i -> toDateTime64(h0, 3, 'UTC') + toIntervalHour(i), range(toUInt32(n)))) AS Hour FROM bill)
                    ORDER BY x_Object, x_Row, Hour
                ) AS t ON t.x_Object = b.x_Object AND t.x_Row = b.x_Row
                GROUP BY ALL
            )
        )
        )
        ARRAY JOIN hs AS Hour, known AS Seen, w AS part, hours_ AS h_, consumed_ AS q_, priced_ AS p_, list_ AS l_, contracted_ AS c_, effective_ AS e_, billed_ AS b_
        WHERE part > 0),
    -- The machine's billed GPU time in an hour, over all charges that bill that same time.
    timed AS (
        SELECT *, greatest(s, Hour) AS cs, least(e, Hour + INTERVAL 1 HOUR) AS ce,
            sum(toDecimal256(Hours, 18)) OVER (PARTITION BY Resource, Hour, greatest(s, Hour), least(e, Hour + INTERVAL 1 HOUR)) AS together
        FROM hourly),
    -- Level two: the hour over its intervals; where nothing was seen, over the jobs that a scheduler placed.
    parts AS (
        SELECT t.x_Object AS x_Object, t.x_Row AS x_Row, t.Hour AS Hour,
            (i.State, i.Cause, i.JobScheduler, i.JobCluster, i.JobId, i.JobTask, i.JobAttempt, i.Owner, i.OwnerConfidence, i.Project, i.Team,
                i.Environment, i.Node, i.Uuid, i.Instance, toNullable(i.Start), toNullable(i.End), 'observed', toUInt64(0), '') AS what,
            intDiv(toInt256(dateDiff('millisecond', greatest(i.Start, t.cs), least(i.End, t.ce))) * unit * i.ShareNum, i.ShareDen) AS weight
        FROM timed AS t INNER JOIN seen AS i ON i.Resource = t.Resource AND toDateTime64(i.Hour, 3, 'UTC') = t.Hour
        WHERE i.Start < t.ce AND i.End > t.cs
        UNION ALL
        SELECT t.x_Object, t.x_Row, t.Hour,
            (toLowCardinality('busy'), toLowCardinality('scheduled'), j.Scheduler, j.Cluster, j.JobId, j.ArrayTask, j.Attempt, j.JobId,
                toLowCardinality('scheduled'), j.Project, j.Team, j.Environment, toLowCardinality(j.Node), '', toLowCardinality(''),
                CAST(NULL AS Nullable(DateTime64(3, 'UTC'))), CAST(NULL AS Nullable(DateTime64(3, 'UTC'))), 'scheduled', toUInt64(0), '') AS what,
            toInt256(dateDiff('millisecond', greatest(j.Start, t.cs), least(j.End, t.ce)))
                * unit * if(j.GpuCount > 0, toInt256(j.GpuCount), toInt256(t.gpus)) AS weight
        FROM timed AS t
        INNER JOIN
        (
            SELECT q.* EXCEPT (Nodes, Start, End), q.Nodes[1] AS Node, h.ResourceId AS Resource, greatest(assumeNotNull(q.Start), h.From) AS Start,
                least(ifNull(q.End, h.To), h.To) AS End -- while the name is this machine's
            FROM (SELECT *, arrayJoin(Nodes) AS Host FROM idlewatt_store.jobs WHERE isNotNull(Start) AND notEmpty(Nodes)
                AND Evidence != 'declared' AND length(Nodes) = 1) AS q
            INNER JOIN idlewatt_store.host_resources AS h ON h.Node = lower(q.Host)
        ) AS j ON j.Resource = t.Resource
        WHERE j.Start < t.ce AND j.End > t.cs AND NOT t.Seen
        {{- if .Pods}}
        UNION ALL
        SELECT t.x_Object, t.x_Row, t.Hour,
            (toLowCardinality(if(h.Pod = '', 'unknown', 'busy')), toLowCardinality(if(h.Pod = '', 'not_split', 'split')), toLowCardinality(''), toLowCardinality(''),
                '', '', toUInt16(0), h.Pod, toLowCardinality(if(h.Pod = '', '', 'provider')), CAST(NULL AS LowCardinality(Nullable(String))),
                CAST(NULL AS LowCardinality(Nullable(String))), CAST(NULL AS LowCardinality(Nullable(String))), toLowCardinality(''), '', toLowCardinality(''),
                CAST(NULL AS Nullable(DateTime64(3, 'UTC'))), CAST(NULL AS Nullable(DateTime64(3, 'UTC'))), 'provider', h.TagSet, h.PodTags) AS what,
            h.Weight AS weight
        FROM timed AS t INNER JOIN shares AS h ON h.Resource = t.Resource AND h.s = t.s AND h.e = t.e
        {{- end}}
    ),
    weighed AS (
        SELECT *, arraySum(ws) AS got, {{if .Pods}}if(whats[1].18 = 'provider', got, {{end}}toInt256(multiplyDecimal(together, toDecimal256(3600000 * unit, 0), 0)){{if .Pods}}){{end}} AS owed,
            -- What was billed and not seen is a part of its own; if more was seen than billed, the weights are scaled.
            if(owed > got, arrayConcat(ws, [owed - got]), ws) AS weights,
            if(owed > got, arrayConcat(whats, [(toLowCardinality('unknown'), toLowCardinality(if(got = 0, 'no_telemetry', 'gap')), toLowCardinality(''), toLowCardinality(''), '', '',
                toUInt16(0), '', toLowCardinality(''), CAST(NULL AS LowCardinality(Nullable(String))), CAST(NULL AS LowCardinality(Nullable(String))),
                CAST(NULL AS LowCardinality(Nullable(String))), toLowCardinality(''), '', toLowCardinality(''),
                CAST(NULL AS Nullable(DateTime64(3, 'UTC'))), CAST(NULL AS Nullable(DateTime64(3, 'UTC'))), 'unobserved', toUInt64(0), '')]), whats) AS all_whats
        FROM
        (
            SELECT t.*, {{if .Pods}}arrayFilter((w, x) -> (x.18 = 'provider') = p.by_provider, p.ws, p.whats) AS ws,
                arrayFilter(x -> (x.18 = 'provider') = p.by_provider, p.whats) AS whats{{else}}p.ws AS ws, p.whats AS whats{{end}}
            FROM timed AS t
            LEFT JOIN
            (
                SELECT x_Object, x_Row, Hour, groupArray(weight) AS ws, groupArray(what) AS whats
                    {{- if .Pods}}, countIf(what.18 = 'provider') > 0 AND countIf(what.18 != 'provider' AND what.1 != 'unknown') = 0 AS by_provider{{end}}
                FROM (SELECT * FROM parts WHERE weight > 0 ORDER BY x_Object, x_Row, Hour, what.14, what.15, what.16, what.17, what.5, what.6, what.7, what.8, what.1, what.19)
                GROUP BY x_Object, x_Row, Hour
            ) AS p ON p.x_Object = t.x_Object AND p.x_Row = t.x_Row AND p.Hour = t.Hour
        ))
SELECT {base: UInt64} + toUInt64(Day - {first: Date}), {load: UInt64}, x_Object, x_Row, Day, Hour, toUInt32(k),
    multiIf(what.18 = 'unobserved' OR what.1 = 'unknown', 'unobserved', what.1 IN ('busy', 'busy_unowned'), 'job_used', what.1 = 'allocated_idle', 'job_idle',
        what.1 = 'unallocated_idle', 'unallocated_idle', what.1 = 'unavailable', 'unavailable', 'unobserved') AS kind,
    multiIf(what.18 IN ('scheduled', 'provider'), what.18, what.18 = 'unobserved', 'none', got > owed, 'scaled', spread != '', spread, 'observed'),
    what.1, what.2, what.3, what.4, what.5, what.6, what.7, what.8, what.9, what.10, what.11, what.12, what.13, what.14, what.15, what.16, what.17,
    assumeNotNull(h_), q_, p_, l_, c_, e_, assumeNotNull(b_), what.19, what.20
FROM
(
    SELECT *, {{split "Hours" "weights"}} AS hours_parts, {{split "Consumed" "weights"}} AS consumed_parts,
        {{split "Priced" "weights"}} AS priced_parts, {{split "List" "weights"}} AS list_parts,
        {{split "Contracted" "weights"}} AS contracted_parts, {{split "Effective" "weights"}} AS effective_parts,
        {{split "Billed" "weights"}} AS billed_parts
    FROM weighed
)
ARRAY JOIN arrayEnumerate(weights) AS k, all_whats AS what, hours_parts AS h_, consumed_parts AS q_, priced_parts AS p_, list_parts AS l_,
    contracted_parts AS c_, effective_parts AS e_, billed_parts AS b_
