-- Writes what some (source, day) should show, as charges.
--
-- Parameters: base (the first load number to write), scopes.
INSERT INTO idlewatt_store.charges (x_Load, x_Scope, x_Source, x_Dataset, x_Delivery, x_Object, x_Row, x_FocusVersion, AvailabilityZone, BilledCost,
    BillingAccountId, BillingCurrency, BillingPeriodStart, BillingPeriodEnd, ChargeCategory, ChargeDescription, ChargeFrequency, ChargePeriodStart,
    ChargePeriodEnd, ConsumedQuantity, ConsumedUnit, EffectiveCost, HostProviderName, InvoiceId, InvoiceIssuerName, PricingCategory, PricingQuantity,
    PricingUnit, RegionId, ResourceId, ResourceName, ResourceType, ServiceCategory, ServiceName, ServiceProviderName, SkuId, SubAccountId, Tags,
    x_ProviderName, x_LineItemType, x_InstanceType, x_Node, x_PricingModel, x_GpuModel, x_GpuCount, x_GpuHours, x_TagSet, x_BadTags, x_PairCash,
    x_BilledResidue, x_EffectiveResidue)
WITH
{{template "shown"}}
SELECT {base: UInt64} + indexOf({scopes: Array(String)}, Scope) - 1, Scope, Source, 'estimate', '', if(isNull(InvoiceId), 'estimate', 'invoice'),
    row_number() OVER (PARTITION BY Scope ORDER BY Category DESC, Start, Resource, Kind, InvoiceId, BillTo), '', nullIf(Zone, ''), Amount,
    BillTo, Currency, PeriodStart, PeriodEnd, Category,
    if(Line = 'estimate', concat('Estimated from observed time and the ', How, ' rate'), 'What the invoice has beyond the estimates of its period'),
    if(Line = 'estimate', 'Usage-Based', 'One-Time'), Start, Stop, Hours, if(isNull(Hours), NULL, 'Hours'), Amount, vendor, InvoiceId, vendor,
    multiIf(Line != 'estimate', NULL, PricingModel = 'spot', 'Dynamic', PricingModel IN ({{committed}}), 'Committed', 'Standard'), Hours,
    if(isNull(Hours), NULL, 'Hours'), nullIf(Region, ''), Resource, nullIf(Name, ''), nullIf(Kind, ''),
    multiIf(Family = 'storage', 'Storage', Family = 'compute', 'Compute', 'Other'), concat(vendor, ' ', if(Kind = '', 'invoice', Kind)), vendor,
    nullIf(InstanceType, ''), Sub, Tags, vendor, Line, nullIf(InstanceType, ''), nullIf(Node, ''), nullIf(PricingModel, ''), nullIf(GpuModel, ''),
    if(GpuHours > 0, GpuCount, NULL), if(GpuHours > 0, GpuHours, NULL), sipHash64(mapSort(Tags), ifNull(Sub, '')), 0, 0, 0, 0
FROM (SELECT *, transform(Provider, {{providers}}, {{vendors}}, initcap(Provider)) AS vendor FROM charge) WHERE Scope IN {scopes: Array(String)}
