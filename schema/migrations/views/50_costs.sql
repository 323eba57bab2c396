CREATE OR REPLACE VIEW idlewatt.project_costs DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT BillingPeriodStart, BillingCurrency, x_Project, x_Team, x_Environment,
{{costs}}
FROM idlewatt.allocations AS a
GROUP BY BillingPeriodStart, BillingCurrency, x_Project, x_Team, x_Environment
;;
-- Charges longer than a day are spread over the days they cover, by time, exactly: ends are
-- exclusive, days are those of the reporting time zone and have 23, 24 or 25 hours.
CREATE OR REPLACE VIEW idlewatt.allocations_daily DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * EXCEPT (BilledCost, EffectiveCost, s, e, n, days, spans, billed, effective, Day, billed_, effective_),
    Day, assumeNotNull(billed_) AS BilledCost, effective_ AS EffectiveCost
FROM
(
    SELECT *, {{split "BilledCost" "spans"}} AS billed, {{split "EffectiveCost" "spans"}} AS effective
    FROM
    (
        SELECT *, ChargePeriodStart AS s, greatest(ChargePeriodEnd, ChargePeriodStart + INTERVAL 1 SECOND) AS e,
            dateDiff('day', toDate(s, '{{tz}}'), toDate(e - INTERVAL 1 MILLISECOND, '{{tz}}')) + 1 AS n,
            arrayMap(i -> toDate(s, '{{tz}}') + i, range(toUInt32(n))) AS days,
            arrayMap(day -> toInt256(dateDiff('millisecond',
                greatest(s, toDateTime64(toDateTime(day, '{{tz}}'), 3, 'UTC')),
                least(e, toDateTime64(toDateTime(day + 1, '{{tz}}'), 3, 'UTC')))), days) AS spans
        FROM idlewatt.allocations
    )
)
ARRAY JOIN days AS Day, billed AS billed_, effective AS effective_
;;
CREATE OR REPLACE VIEW idlewatt.project_costs_daily DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT Day, BillingCurrency, x_Project, x_Team, x_Environment,
{{costs}}
FROM idlewatt.allocations_daily AS a
GROUP BY Day, BillingCurrency, x_Project, x_Team, x_Environment
;;
CREATE OR REPLACE VIEW idlewatt.gpu_hour_rates DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT toStartOfMonth(BillingPeriodStart) AS Month, ServiceProviderName, RegionId, x_GpuModel, x_PricingModel, BillingCurrency,
    sum(x_GpuHours) AS GpuHours, sumIf(x_GpuHours, x_AllocationKind = 'job_used') AS BusyGpuHours,
    sum(EffectiveCost) AS EffectiveCost,
    -- What runs in a Capacity Block pays the operating system only, the block's fee is a row without hours.
    if(GpuHours > 0 AND ifNull(x_PricingModel, '') != 'capacity_block', toDecimal128(divideDecimal(toDecimal256(EffectiveCost, 18), toDecimal256(GpuHours, 18), 18), 18), NULL) AS CostPerGpuHour,
    if(BusyGpuHours > 0 AND ifNull(x_PricingModel, '') != 'capacity_block', toDecimal128(divideDecimal(toDecimal256(EffectiveCost, 18), toDecimal256(BusyGpuHours, 18), 18), 18), NULL) AS CostPerBusyGpuHour
FROM idlewatt.allocations
WHERE x_GpuHours > 0 AND x_AllocationKind NOT IN ('commitment_unused', 'tax', 'credit', 'adjustment')
GROUP BY Month, ServiceProviderName, RegionId, x_GpuModel, x_PricingModel, BillingCurrency
;;
-- Invoices against bills, per billing account, period and currency: an issuer may send several
-- invoices for one period, and a bill carries their ids only when the month is closed. What is
-- only estimated is no bill; what an invoice settled is.
CREATE OR REPLACE VIEW idlewatt.reconciliation DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    if(i.Invoices > 0, i.InvoiceIssuerName, b.InvoiceIssuerName) AS InvoiceIssuerName,
    if(b.Rows > 0, b.BillingAccountId, i.BillingAccountId) AS BillingAccountId,
    if(i.Invoices > 0, i.InvoiceId, b.InvoiceId) AS InvoiceId,
    if(b.Rows > 0, b.BillingPeriodStart, i.BillingPeriodStart) AS BillingPeriodStart,
    if(b.Rows > 0, b.BillingCurrency, i.BillingCurrency) AS BillingCurrency,
    if(i.Invoices > 0, toNullable(i.InvoiceTotal), NULL) AS InvoiceTotal,
    b.BilledCost AS BilledCost,
    b.EffectiveCost - b.BilledCost AS AmortisationDifference,
    b.EffectiveCost AS EffectiveCost,
    b.AllocatedCost AS AllocatedCost,
    b.EffectiveCost - b.AllocatedCost AS Difference,
    -- An invoice is in whole cents: what rounding to them makes is explained.
    multiIf(isNull(InvoiceTotal), NULL, Status = 'matched', InvoiceTotal - b.BilledCost, toDecimal128(0, 18)) AS ExplainedDifference,
    multiIf(isNull(InvoiceTotal), NULL, Status = 'matched', toDecimal128(0, 18), InvoiceTotal - b.BilledCost) AS UnexplainedDifference,
    multiIf(i.Invoices = 0, 'no_invoice', b.Rows = 0, 'no_bill', abs(i.InvoiceTotal - b.BilledCost) < toDecimal128('0.01', 18), 'matched', 'unexplained') AS Status,
    now64(3) AS CheckedAt
FROM
(
    SELECT anyIf(Issuer, Issuer != '') AS InvoiceIssuerName, BillingAccountId, BillingPeriodStart, BillingCurrency,
        arrayStringConcat(arraySort(groupUniqArrayArray(Ids)), ', ') AS InvoiceId,
        sum(Billed) AS BilledCost, sum(Effective) AS EffectiveCost, sum(Allocated) AS AllocatedCost, sum(n) AS Rows
    FROM
    (
        SELECT ifNull(any(InvoiceIssuerName), '') AS Issuer, BillingAccountId, BillingPeriodStart, BillingCurrency,
            groupUniqArray(InvoiceId) AS Ids, sum(c.BilledCost) AS Billed, sum(ifNull(c.EffectiveCost, 0)) AS Effective,
            toDecimal128(0, 18) AS Allocated, count() AS n
        FROM idlewatt.charges AS c WHERE x_ChargeStatus != 'estimated' GROUP BY BillingAccountId, BillingPeriodStart, BillingCurrency
        UNION ALL
        SELECT '', BillingAccountId, BillingPeriodStart, BillingCurrency, [],
            toDecimal128(0, 18), toDecimal128(0, 18), sum(ifNull(a.EffectiveCost, 0)), 0
        FROM idlewatt.allocations AS a WHERE x_ChargeStatus != 'estimated' GROUP BY BillingAccountId, BillingPeriodStart, BillingCurrency
    )
    GROUP BY BillingAccountId, BillingPeriodStart, BillingCurrency
) AS b
FULL OUTER JOIN
(
    SELECT any(v.InvoiceIssuerName) AS InvoiceIssuerName, BillingAccountId, BillingPeriodStart, BillingCurrency,
        arrayStringConcat(arraySort(groupArray(v.InvoiceId)), ', ') AS InvoiceId, sum(v.BilledCost) AS InvoiceTotal, count() AS Invoices
    FROM idlewatt.invoices AS v GROUP BY BillingAccountId, BillingPeriodStart, BillingCurrency
) AS i ON i.BillingAccountId = b.BillingAccountId AND i.BillingPeriodStart = b.BillingPeriodStart AND i.BillingCurrency = b.BillingCurrency
