-- What an hour of a GPU costs: the resource's own newest effective rate, else its model's.
CREATE OR REPLACE VIEW idlewatt_store.resource_rates AS
SELECT assumeNotNull(m.ResourceId) AS ResourceId, argMax(m.Rate, m.Month) AS Rate, argMax(m.BillingCurrency, m.Month) AS BillingCurrency,
    argMax(m.x_PricingModel, m.Month) AS x_PricingModel, argMax(m.x_GpuModel, m.Month) AS x_GpuModel, argMax(m.x_GpuCount, m.Month) AS x_GpuCount,
    argMax(m.BillingAccountId, m.Month) AS BillingAccountId, argMax(m.SubAccountId, m.Month) AS SubAccountId,
    argMax(m.ServiceProviderName, m.Month) AS ServiceProviderName, argMax(m.RegionId, m.Month) AS RegionId,
    argMax(m.Project, m.Month) AS x_Project, argMax(m.Team, m.Month) AS x_Team, max(m.Last) AS LastBilled
FROM
(
    SELECT ResourceId, BillingPeriodStart AS Month, BillingCurrency, any(c.x_GpuModel) AS x_GpuModel, any(c.x_GpuCount) AS x_GpuCount,
        argMax(c.x_PricingModel, c.x_GpuHours) AS x_PricingModel, any(c.BillingAccountId) AS BillingAccountId, any(c.SubAccountId) AS SubAccountId,
        any(c.ServiceProviderName) AS ServiceProviderName, any(c.RegionId) AS RegionId, any(d.Project) AS Project, any(d.Team) AS Team,
        max(c.ChargePeriodEnd) AS Last,
        toDecimal128(divideDecimal(toDecimal256(sum(assumeNotNull(EffectiveCost)), 18), toDecimal256(sum(assumeNotNull(x_GpuHours)), 18), 18), 18) AS Rate
    FROM idlewatt_store.gpu_charges AS c
    LEFT ANY JOIN (SELECT * FROM idlewatt_store.tag_dims FINAL) AS d ON d.TagSet = c.x_TagSet
    WHERE isNotNull(EffectiveCost) -- reserved hours of a dataset without effective cost have no rate, not a rate of 0
    GROUP BY ResourceId, Month, BillingCurrency
) AS m
GROUP BY m.ResourceId
;;
-- Idle hours with their cost: billed where the bill covers them, else estimated by rate.
CREATE OR REPLACE VIEW idlewatt_store.idle_parts AS
SELECT i.ResourceId AS ResourceId, i.Node AS Node, i.Uuid AS Uuid, i.Instance AS Instance,
    -- NVIDIA H100 80GB HBM3 is an H100, as the bill calls it.
    replaceRegexpAll(i.GpuModel, '^(NVIDIA|AMD|Tesla) |( [0-9]+GB)?( HBM[0-9a-z]*)?( PCIe)?$', '') AS GpuModel,
    i.State AS State, i.Cause AS Cause, i.Start AS Start, i.End AS End,
    if(a.Parts > 0, a.GpuHours, toDecimal128(divideDecimal(toDecimal256(
        dateDiff('millisecond', i.Start, i.End) * toInt64(i.ShareNum), 0), toDecimal256(3600000 * toInt64(i.ShareDen), 0), 18), 18)) AS GpuHours,
    multiIf(a.Parts > 0, a.Cost, t.ResourceId != '',
        toDecimal128(multiplyDecimal(toDecimal256(GpuHours, 18), toDecimal256(t.Rate, 18), 18), 18), NULL) AS Cost,
    if(t.ResourceId != '', t.BillingCurrency, '') AS BillingCurrency,
    t.x_PricingModel AS x_PricingModel, t.x_GpuModel AS x_BilledModel,
    coalesce(i.Project, t.x_Project) AS x_Project, coalesce(i.Team, t.x_Team) AS x_Team,
    i.Owner AS Owner, i.OwnerConfidence AS OwnerConfidence, i.LastJobId AS LastJobId, i.JobId AS JobId, i.Coverage AS Coverage,
    i.EngineMax AS EngineMax, i.MeanPowerW AS MeanPowerW, i.Resident AS Resident,
    if(a.Parts > 0 AND a.Estimated = 0, 'billed', 'estimated') AS x_ChargeStatus,
    t.ServiceProviderName AS ServiceProviderName, t.BillingAccountId AS BillingAccountId, t.SubAccountId AS SubAccountId, t.RegionId AS RegionId,
    if(t.ResourceId != '', toNullable(t.Rate), NULL) AS Rate, if(t.ResourceId != '' AND t.x_GpuCount > 0, toUInt64(ceil(toFloat64(assumeNotNull(t.x_GpuCount)))), n.Gpus) AS NodeGpus
FROM (SELECT * FROM idlewatt_store.placed_intervals WHERE State IN ('allocated_idle', 'unallocated_idle')) AS i
LEFT ANY JOIN idlewatt_store.resource_rates AS t ON t.ResourceId = i.ResourceId
LEFT ANY JOIN (SELECT Node, uniqExact(Uuid) AS Gpus FROM idlewatt_store.live_intervals GROUP BY Node) AS n ON n.Node = i.Node
LEFT ANY JOIN
(
    SELECT Uuid, Instance, IntervalStart, Owner, JobId, sum(GpuHours) AS GpuHours, if(countIf(isNull(EffectiveCost)) = 0, sum(EffectiveCost), NULL) AS Cost, count() AS Parts,
        countIf(ChargeObject = 'estimate') AS Estimated -- the object of charges that processors/rate made
    FROM idlewatt_store.live_allocations WHERE isNotNull(IntervalStart) GROUP BY Uuid, Instance, IntervalStart, Owner, JobId
) AS a ON a.Uuid = i.Uuid AND a.Instance = i.Instance AND a.IntervalStart = i.Start AND a.Owner = i.Owner AND a.JobId = i.JobId
;;
-- One row per GPU and unbroken idle stretch. A gap in telemetry ends a stretch.
CREATE OR REPLACE VIEW idlewatt.idle_waste DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT p.ResourceId AS ResourceId, p.Node AS Node, p.Uuid AS GpuUuid, any(ifNull(p.x_BilledModel, p.GpuModel)) AS x_GpuModel,
    p.State AS State, any(p.Cause) AS Cause, min(p.Start) AS IntervalStart, max(p.End) AS IntervalEnd, sum(p.GpuHours) AS GpuHours,
    sum(p.Cost) AS Cost, sumIf(p.Cost, p.x_PricingModel IN ('on_demand', 'spot', 'community')) AS AvoidableCost, any(p.x_PricingModel) AS x_PricingModel,
    p.BillingCurrency AS BillingCurrency, any(p.x_Project) AS x_Project, any(p.x_Team) AS x_Team, p.Owner AS Owner,
    any(p.OwnerConfidence) AS OwnerConfidence, any(p.LastJobId) AS LastJobId, min(p.Coverage) AS Coverage,
    max(p.EngineMax) AS EngineMax, avg(p.MeanPowerW) AS MeanPowerW,
    if(countIf(p.x_ChargeStatus = 'estimated') = 0, 'billed',
        if(countIf(p.x_ChargeStatus = 'billed') = 0, 'estimated', 'partly_estimated')) AS x_ChargeStatus
FROM
(
    SELECT *, sum(starts) OVER (PARTITION BY Uuid, Instance, State, Owner, JobId ORDER BY Start ROWS UNBOUNDED PRECEDING) AS stretch
    FROM
    (
        SELECT *, lagInFrame(toNullable(End)) OVER (PARTITION BY Uuid, Instance, State, Owner, JobId ORDER BY Start
            ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) != Start OR isNull(lagInFrame(toNullable(End)) OVER (PARTITION BY Uuid, Instance, State, Owner, JobId
            ORDER BY Start ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)) AS starts
        FROM idlewatt_store.idle_parts
    )
) AS p
GROUP BY p.ResourceId, p.Node, p.Uuid, p.Instance, p.State, p.Owner, p.JobId, p.BillingCurrency, p.stretch
;;
-- Nodes whose GPUs are idle at a moment: the stretch that is the newest thing known of a GPU
-- and reaches up to the moment, or to within 15 minutes of it.
CREATE OR REPLACE VIEW idlewatt_store.idle_at AS
SELECT p.ResourceId AS ResourceId, p.Node AS Node, any(p.x_GpuModel) AS x_GpuModel, uniqExact(p.GpuUuid) AS GpuCount, min(p.IntervalStart) AS IdleSince,
    p.State AS State, any(p.Cause) AS Cause, sum(p.Cost) AS CostSoFar, sum(p.Rate) AS CostPerHour,
    sumIf(p.Rate, p.x_PricingModel IN ('on_demand', 'spot', 'community')) AS AvoidablePerHour, any(p.x_PricingModel) AS x_PricingModel,
    any(p.Owner) AS Owner, any(p.OwnerConfidence) AS OwnerConfidence, any(p.LastJobId) AS LastJobId, min(p.Coverage) AS Coverage,
    any(p.BillingCurrency) AS BillingCurrency, any(p.x_Project) AS x_Project, any(p.x_Team) AS x_Team,
    max(p.EngineMax) AS EngineMax, avg(p.MeanPowerW) AS MeanPowerW, any(p.x_ChargeStatus) AS x_ChargeStatus,
    any(p.ServiceProviderName) AS ServiceProviderName, any(p.BillingAccountId) AS BillingAccountId,
    any(p.SubAccountId) AS SubAccountId, any(p.RegionId) AS RegionId, max(p.IntervalEnd) AS SeenUntil,
    max(p.NodeGpus) AS NodeGpus
FROM
(
    SELECT q.ResourceId AS ResourceId, q.Node AS Node, q.Uuid AS GpuUuid, q.State AS State, any(q.Cause) AS Cause,
        any(ifNull(q.x_BilledModel, q.GpuModel)) AS x_GpuModel, min(q.Start) AS IntervalStart, max(q.Till) AS IntervalEnd,
        sum(if(q.End <= {at: DateTime64(3, 'UTC')} OR isNull(q.Cost), q.Cost, toDecimal128(divideDecimal(multiplyDecimal(toDecimal256(q.Cost, 18),
            toDecimal256(dateDiff('millisecond', q.Start, q.Till), 0), 18), toDecimal256(dateDiff('millisecond', q.Start, q.End), 0), 18), 18))) AS Cost,
        any(q.Rate) AS Rate, any(q.x_PricingModel) AS x_PricingModel, q.Owner AS Owner, any(q.OwnerConfidence) AS OwnerConfidence,
        any(q.LastJobId) AS LastJobId, min(q.Coverage) AS Coverage, any(q.BillingCurrency) AS BillingCurrency,
        any(q.x_Project) AS x_Project, any(q.x_Team) AS x_Team, max(q.EngineMax) AS EngineMax, avg(q.MeanPowerW) AS MeanPowerW,
        any(q.x_ChargeStatus) AS x_ChargeStatus, any(q.ServiceProviderName) AS ServiceProviderName,
        any(q.BillingAccountId) AS BillingAccountId, any(q.SubAccountId) AS SubAccountId, any(q.RegionId) AS RegionId, max(q.NodeGpus) AS NodeGpus, q.stretch AS stretch
    FROM
    (
        SELECT *, least(End, {at: DateTime64(3, 'UTC')}) AS Till,
            sum(starts) OVER (PARTITION BY Uuid, Instance, State, Owner, JobId ORDER BY Start ROWS UNBOUNDED PRECEDING) AS stretch
        FROM
        (
            SELECT *, lagInFrame(toNullable(End)) OVER (PARTITION BY Uuid, Instance, State, Owner, JobId ORDER BY Start
                ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) != Start OR isNull(lagInFrame(toNullable(End)) OVER (PARTITION BY Uuid, Instance, State, Owner, JobId
                ORDER BY Start ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)) AS starts
            FROM idlewatt_store.idle_parts WHERE Start < {at: DateTime64(3, 'UTC')}
        )
    ) AS q
    LEFT ANY JOIN
    (
        SELECT Uuid, Instance, max(Start) AS LastStart FROM idlewatt_store.live_intervals
        WHERE State != 'unknown' AND Start < {at: DateTime64(3, 'UTC')} GROUP BY Uuid, Instance
    ) AS newest ON newest.Uuid = q.Uuid AND newest.Instance = q.Instance
    GROUP BY q.ResourceId, q.Node, q.Uuid, q.Instance, q.State, q.Owner, q.JobId, q.stretch
    HAVING max(q.Start) >= max(newest.LastStart) AND IntervalEnd >= {at: DateTime64(3, 'UTC')} - INTERVAL 15 MINUTE
) AS p
GROUP BY p.ResourceId, p.Node, p.State, p.Owner
;;
CREATE OR REPLACE VIEW idlewatt.idle_now DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * FROM idlewatt_store.idle_at(at = now64(3))
;;
-- GPU time without a bill, and bills without GPU time. An ambiguous host has a name that several
-- resources hold at one time: Candidates says which.
CREATE OR REPLACE VIEW idlewatt.unmatched_hosts DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT if(empty(i.Candidates), 'host without resource', 'ambiguous host') AS Kind, i.Node AS Name, '' AS ResourceId,
    toDecimal128(divideDecimal(toDecimal256(sum(dateDiff('millisecond', Start, End)), 0), toDecimal256(3600000, 0), 18), 18) AS GpuHours,
    CAST(NULL AS Nullable(Decimal(38, 18))) AS Cost, '' AS BillingCurrency, min(Start) AS FirstSeen, max(End) AS LastSeen, i.Candidates AS Candidates
FROM idlewatt_store.placed_intervals AS i
WHERE i.ResourceId = '' GROUP BY i.Node, i.Candidates
UNION ALL
SELECT 'resource without telemetry', ifNull(any(ResourceName), assumeNotNull(ResourceId)), assumeNotNull(ResourceId),
    sum(assumeNotNull(x_GpuHours)), sum(EffectiveCost), BillingCurrency, min(ChargePeriodStart), max(ChargePeriodEnd), CAST([] AS Array(String))
FROM idlewatt_store.gpu_charges
WHERE assumeNotNull(ResourceId) NOT IN (SELECT DISTINCT ResourceId FROM idlewatt_store.placed_intervals WHERE ResourceId != '')
GROUP BY ResourceId, BillingCurrency
