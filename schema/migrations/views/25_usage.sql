-- Usage lines of live bills in the words of an inventory: provider, every account that a run
-- may name, cost family, hours of the whole machine. Estimates are no bill.
CREATE OR REPLACE VIEW idlewatt_store.billed_usage AS
SELECT c.x_Load AS Load,
    multiIf(p = 'aws' OR position(p, 'amazon') > 0, 'aws', position(p, 'microsoft') > 0 OR position(p, 'azure') > 0, 'azure',
        p = 'gcp' OR position(p, 'google') > 0, 'gcp', startsWith(p, 'vast'), 'vast', startsWith(p, 'lambda'), 'lambda',
        startsWith(p, 'crusoe'), 'crusoe', startsWith(p, 'together'), 'together', p) AS Provider,
    lower(coalesce(c.ServiceProviderName, c.x_ProviderName, c.InvoiceIssuerName, '')) AS p,
    multiIf(
        ifNull(c.ServiceCategory, '') = 'Storage' OR position(ifNull(c.SkuMeter, ''), 'EBS:') > 0
            OR match(ifNull(c.x_LineItemType, ''), '^(storage|network_volume|container_disk)'), 'storage',
        -- Traffic of a machine stands under its id and service, but is not its time.
        ifNull(c.x_GpuHours, 0) > 0 OR isNotNull(c.x_InstanceType) OR ifNull(c.x_LineItemType, '') = 'compute'
            OR ifNull(c.ServiceCategory, '') = 'Compute' AND match(lower(ifNull(c.ConsumedUnit, '')), '^$|hour|hrs|minute|second'), 'compute',
        'other') AS Family,
    c.BillingAccountId AS BillingAccount,
    arrayDistinct(arrayFilter(a -> a != '', arrayConcat([toString(c.BillingAccountId), ifNull(toString(c.SubAccountId), '')],
        [lower(splitByChar('/', toString(c.BillingAccountId))[-1]), lower(splitByChar('/', ifNull(toString(c.SubAccountId), ''))[-1])]))) AS Accounts,
    ifNull(c.ResourceId, '') AS Resource, toString(ifNull(c.x_InstanceType, '')) AS Machine, toString(ifNull(c.x_PricingModel, '')) AS Pricing,
    toString(ifNull(c.RegionId, '')) AS Place, toString(c.BillingCurrency) AS Money,
    c.BillingPeriodStart AS PeriodStart, c.BillingPeriodEnd AS PeriodEnd, c.ChargePeriodStart AS Start, c.ChargePeriodEnd AS Stop,
    isNotNull(c.InvoiceId) AS Invoiced, ifNull(c.EffectiveCost, c.BilledCost) AS Paid, isNotNull(c.EffectiveCost) AS Effective,
    c.BilledCost != 0 OR ifNull(c.EffectiveCost, 0) != 0 AS Costs,
    multiIf(c.x_GpuHours > 0 AND c.x_GpuCount > 0,
            toNullable(toDecimal128(toDecimal256(assumeNotNull(c.x_GpuHours), 18) / toDecimal256(assumeNotNull(c.x_GpuCount), 18), 18)), -- hours, and divideDecimal is slow
        isNotNull(c.x_InstanceType) AND lower(ifNull(c.ConsumedUnit, '')) IN ('hour', 'hours', 'hrs', 'h'), c.ConsumedQuantity, NULL) AS MachineHours
FROM idlewatt_store.charges AS c
WHERE c.x_Load IN (SELECT Load FROM idlewatt_store.live_loads) AND c.x_Dataset != 'estimate' AND c.ChargeCategory = 'Usage'
