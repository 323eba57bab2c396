CREATE OR REPLACE VIEW idlewatt_store.live_allocations AS
SELECT * FROM idlewatt_store.allocations
WHERE Load IN (SELECT max(Load) FROM idlewatt_store.allocation_commits GROUP BY ChargeLoad, Day)
    AND ChargeLoad IN (SELECT Load FROM idlewatt_store.live_loads)
;;
-- Parts that the bill itself makes of a machine, and the charges that have any parts: GPU
-- machines, and other machines whose pods the bill tells apart.
CREATE OR REPLACE VIEW idlewatt_store.pod_parts AS
SELECT ChargeLoad, ChargeObject, ChargeRow FROM idlewatt_store.live_allocations
WHERE ChargeLoad IN (SELECT ChargeLoad FROM idlewatt_store.allocation_commits WHERE Pods) AND x_AllocationQuality = 'provider'
;;
CREATE OR REPLACE VIEW idlewatt_store.split_charges AS
SELECT * FROM idlewatt_store.gpu_charges
UNION ALL
SELECT * FROM idlewatt_store.charges
WHERE x_Load IN (SELECT ChargeLoad FROM idlewatt_store.pod_parts) AND NOT ifNull(x_GpuHours > 0, 0)
    AND (x_Load, x_Object, x_Row) IN (SELECT ChargeLoad, ChargeObject, ChargeRow FROM idlewatt_store.pod_parts)
;;
-- Every live charge as its parts. A charge that is split shows its parts instead of itself;
-- one that is not, or not yet, is one row: so the sums hold at every moment.
CREATE OR REPLACE VIEW idlewatt.allocations DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH covered AS (SELECT DISTINCT ChargeLoad, Day FROM idlewatt_store.allocation_commits)
SELECT
    c.BillingAccountId AS BillingAccountId, c.BillingAccountName AS BillingAccountName, c.SubAccountId AS SubAccountId,
    c.SubAccountName AS SubAccountName, c.BillingCurrency AS BillingCurrency,
    c.BillingPeriodStart AS BillingPeriodStart, c.BillingPeriodEnd AS BillingPeriodEnd,
    a.Hour AS ChargePeriodStart, if(ifNull(c.x_GpuHours > 0, 0), least(a.Hour + INTERVAL 1 HOUR, greatest(c.ChargePeriodEnd, a.Hour + INTERVAL 1 SECOND)),
        c.ChargePeriodEnd) AS ChargePeriodEnd,
    c.ChargeCategory AS ChargeCategory, c.ChargeClass AS ChargeClass, c.ChargeDescription AS ChargeDescription,
    c.ServiceProviderName AS ServiceProviderName, c.InvoiceIssuerName AS InvoiceIssuerName, c.InvoiceId AS InvoiceId,
    c.ServiceCategory AS ServiceCategory, c.ServiceName AS ServiceName, c.RegionId AS RegionId,
    c.ResourceId AS ResourceId, c.ResourceName AS ResourceName, c.SkuId AS SkuId, c.SkuPriceId AS SkuPriceId,
    c.CommitmentDiscountId AS CommitmentDiscountId, c.CommitmentDiscountStatus AS CommitmentDiscountStatus, c.Tags AS Tags,
    a.BilledCost AS BilledCost, a.EffectiveCost AS EffectiveCost, a.ListCost AS ListCost, a.ContractedCost AS ContractedCost,
    a.ConsumedQuantity AS ConsumedQuantity, c.ConsumedUnit AS ConsumedUnit, a.PricingQuantity AS PricingQuantity, c.PricingUnit AS PricingUnit,
    if(a.x_AllocationQuality = 'provider', 'aws-split-cost', 'idlewatt-gpu-seconds') AS AllocatedMethodId,
    toString(map('kind', toString(a.x_AllocationKind), 'quality', toString(a.x_AllocationQuality), 'state', toString(a.State))) AS AllocatedMethodDetails,
    nullIf(if(a.JobId = '', a.Owner, a.JobId), '') AS AllocatedResourceId, nullIf(a.AllocatedTags, '') AS AllocatedTags,
    a.x_AllocationKind AS x_AllocationKind, a.x_AllocationQuality AS x_AllocationQuality,
    -- Whose a pod is its own tags say; one without goes with its machine.
    coalesce(a.Project, if(p.Tagged, p.Project, d.Project)) AS x_Project, coalesce(a.Team, if(p.Tagged, p.Team, d.Team)) AS x_Team,
    coalesce(a.Environment, if(p.Tagged, p.Environment, d.Environment)) AS x_Environment,
    if(isNotNull(a.Project), 'job', if(p.Tagged, p.TagSource, d.TagSource)) AS x_TagSource,
    c.x_PricingModel AS x_PricingModel, c.x_GpuModel AS x_GpuModel, a.GpuHours AS x_GpuHours,
    multiIf(isNotNull(c.InvoiceId), 'invoiced', c.x_Dataset = 'estimate', 'estimated', 'billed_open') AS x_ChargeStatus,
    a.State AS State, a.Cause AS Cause, a.JobScheduler AS Scheduler, a.JobCluster AS Cluster, a.JobId AS JobId, a.JobTask AS JobTask,
    a.JobAttempt AS Attempt, a.Owner AS Owner, a.OwnerConfidence AS OwnerConfidence, a.Node AS Node, a.Uuid AS GpuUuid,
    a.Instance AS GpuInstance, a.IntervalStart AS IntervalStart, a.IntervalEnd AS IntervalEnd,
    c.x_Source AS x_Source, c.x_Scope AS x_Scope, c.x_Load AS x_Load, c.x_Object AS x_Object, c.x_Row AS x_Row
FROM idlewatt_store.live_allocations AS a
INNER JOIN idlewatt_store.split_charges AS c ON c.x_Load = a.ChargeLoad AND c.x_Object = a.ChargeObject AND c.x_Row = a.ChargeRow
LEFT ANY JOIN (SELECT * FROM idlewatt_store.tag_dims FINAL) AS d ON d.TagSet = c.x_TagSet
LEFT ANY JOIN (SELECT *, isNotNull(Project) OR isNotNull(Team) OR isNotNull(Environment) AS Tagged FROM idlewatt_store.tag_dims FINAL) AS p ON p.TagSet = a.TagSet
UNION ALL
SELECT
    BillingAccountId, BillingAccountName, SubAccountId, SubAccountName, BillingCurrency, BillingPeriodStart, BillingPeriodEnd,
    ChargePeriodStart, ChargePeriodEnd, ChargeCategory, ChargeClass, ChargeDescription, ServiceProviderName, InvoiceIssuerName,
    InvoiceId, ServiceCategory, ServiceName, RegionId, ResourceId, ResourceName, SkuId, SkuPriceId, CommitmentDiscountId,
    CommitmentDiscountStatus, Tags, BilledCost, EffectiveCost, ListCost, ContractedCost, ConsumedQuantity, ConsumedUnit,
    PricingQuantity, PricingUnit, CAST(NULL AS Nullable(String)), CAST(NULL AS Nullable(String)), CAST(NULL AS Nullable(String)), CAST(NULL AS Nullable(String)),
    multiIf(
        ChargeCategory = 'Tax', 'tax',
        ChargeCategory = 'Credit', 'credit',
        ChargeCategory = 'Adjustment', 'adjustment',
        CommitmentDiscountStatus = 'Unused' OR CapacityReservationStatus = 'Unused', 'commitment_unused',
        ChargeCategory = 'Usage' AND (ifNull(x_PricingModel, '') = 'serverless' OR ifNull(x_LineItemType, '') = 'metered'), 'metered',
        splits OR ifNull(x_GpuHours > 0 AND ChargeCategory = 'Usage', 0), 'unobserved',
        'other') AS x_AllocationKind,
    if(splits, 'pending', 'whole'),
    x_Project, x_Team, x_Environment, x_TagSource, x_PricingModel, x_GpuModel, ifNull(x_GpuHours, toDecimal128(0, 18)), x_ChargeStatus,
    '', '', '', '', '', '', toUInt16(0), '', '', '', '', '', CAST(NULL AS Nullable(DateTime64(3, 'UTC'))), CAST(NULL AS Nullable(DateTime64(3, 'UTC'))),
    x_Source, x_Scope, x_Load, x_Object, x_Row
FROM (SELECT *, ifNull(x_GpuHours > 0 AND isNotNull(ResourceId) AND ChargeCategory = 'Usage'
        AND ifNull(CapacityReservationStatus, '') != 'Unused' AND ifNull(x_PricingModel, '') != 'serverless', 0) AS splits FROM idlewatt.charges)
WHERE NOT splits AND (x_Load, x_Object, x_Row) NOT IN (SELECT ChargeLoad, ChargeObject, ChargeRow FROM idlewatt_store.pod_parts)
        -- A pod's own row is billed nothing: its cost is a part of the machine's.
        AND NOT (isNotNull(x_SplitParentId) AND BilledCost = 0 AND ifNull(EffectiveCost, 0) = 0)
    OR splits AND (x_Load, toDate(ChargePeriodStart)) NOT IN (SELECT ChargeLoad, Day FROM covered)
