-- FOCUS 1.0 to 1.4 to FOCUS 1.4. Columns pass as they are; an absent one stays NULL, never 0.
-- ProviderName and PublisherName were removed in 1.4: they are kept with an x_ prefix and fill
-- the names that replaced them.
WITH
    SkuPriceDetails AS details,
    coalesce(src.x_InstanceType, nullIf(JSONExtractString(ifNull(details, ''), 'InstanceType'), '')) AS instance_type,
    coalesce(
        toString(src.x_GpuCount),
        nullIf(JSONExtractString(ifNull(details, ''), 'GpuCount'), ''),
        nullIf(JSONExtractRaw(ifNull(details, ''), 'GpuCount'), '')) AS gpu_text,
    lower(ifNull(ConsumedUnit, '')) IN ('hours', 'hour', 'hrs') AS in_hours,
    ChargeCategory = 'Usage' AND ifNull(CommitmentDiscountStatus, '') != 'Unused' AS uses,
    -- A machine's own hours, not those of its licence or network.
    uses AND in_hours AND ResourceId IS NOT NULL AND (gpu_text IS NOT NULL OR instance_type IS NOT NULL) AND src.x_MachineHours IS NULL AS runs
SELECT
    x_Row,
    BilledCost, EffectiveCost, ListCost, ContractedCost,
    ListUnitPrice, ContractedUnitPrice,
    PricingCurrencyContractedUnitPrice, PricingCurrencyEffectiveCost, PricingCurrencyListUnitPrice,
    ConsumedQuantity, ConsumedUnit, PricingQuantity, PricingUnit, PricingCategory, PricingCurrency,
    BillingAccountId, BillingAccountName, BillingAccountType, BillingCurrency, BillingPeriodStart,
    coalesce(BillingPeriodEnd, toStartOfMonth(BillingPeriodStart) + INTERVAL 1 MONTH) AS BillingPeriodEnd,
    ChargePeriodStart, ChargePeriodEnd,
    coalesce(ChargeCategory, 'Usage') AS ChargeCategory,
    ChargeClass, ChargeDescription, ChargeFrequency,
    CommitmentDiscountCategory, CommitmentDiscountId, CommitmentDiscountName, CommitmentDiscountQuantity,
    CommitmentDiscountStatus, CommitmentDiscountType, CommitmentDiscountUnit,
    CapacityReservationId, CapacityReservationStatus,
    AvailabilityZone, RegionId, RegionName, ResourceId, ResourceName, ResourceType,
    coalesce(HostProviderName, ServiceProviderName, ProviderName) AS HostProviderName,
    coalesce(ServiceProviderName, ProviderName, PublisherName, InvoiceIssuerName) AS ServiceProviderName,
    InvoiceDetailId, InvoiceId, InvoiceIssuerName,
    ServiceCategory, ServiceName, ServiceSubcategory, SkuId, SkuMeter, SkuPriceDetails, SkuPriceId,
    SubAccountId, SubAccountName, SubAccountType, Tags, Tags_bad AS x_BadTags,
    AllocatedMethodId, AllocatedMethodDetails, AllocatedResourceId, AllocatedResourceName, AllocatedTags,
    ContractApplied, CommitmentProgramEligibilityDetails,
    ProviderName AS x_ProviderName,
    PublisherName AS x_PublisherName,
    src.x_LineItemType AS x_LineItemType,
    multiIf(
        src.x_PricingModel IS NOT NULL, src.x_PricingModel,
        PricingCategory = 'Dynamic', 'spot',
        CapacityReservationStatus = 'Unused', 'capacity_reservation',
        CommitmentDiscountId IS NOT NULL AND CommitmentDiscountCategory = 'Spend', 'savings_plan',
        CommitmentDiscountId IS NOT NULL, 'reserved',
        PricingCategory = 'Standard', 'on_demand',
        NULL) AS x_PricingModel,
    if(runs OR src.x_MachineHours IS NOT NULL, instance_type, NULL) AS x_InstanceType,
    if(runs OR src.x_MachineHours IS NOT NULL, toDecimal256OrNull(gpu_text, 18), NULL) AS x_StatedGpus,
    src.x_GpuModel AS x_StatedGpuModel,
    multiIf(src.x_MachineHours IS NOT NULL, src.x_MachineHours, runs, ConsumedQuantity, NULL) AS x_MachineHours
FROM src
