-- AWS Cost and Usage Report (legacy and CUR 2.0) to FOCUS 1.4.
-- Money in src is exact Decimal(76, 40); rounding to 18 digits happens once, afterwards.
-- Amortisation follows AWS's own summary_view (cloud-intelligence-dashboards): effective cost
-- of covered usage, unused part of fees, zero for what is spread elsewhere; net columns first.
WITH
    line_item_line_item_type AS kind,
    coalesce(line_item_net_unblended_cost, line_item_unblended_cost) AS cash,
    kind IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation') AS paired,
    -- BoxUsage:p5.48xlarge, USE2-SpotUsage:p4d.24xlarge: split at the colon first, types hold hyphens.
    splitByChar(':', ifNull(line_item_usage_type, '')) AS usage_parts,
    splitByChar('-', usage_parts[1])[-1] AS usage_kind,
    coalesce(product_instance_type, nullIf(product['instance_type'], ''),
        if(usage_kind IN ('BoxUsage', 'SpotUsage', 'UnusedBox', 'UnusedDed', 'DedicatedUsage', 'HostBoxUsage',
            'Reservation', 'DedicatedRes'), nullIf(usage_parts[2], ''), NULL)) AS instance_type,
    usage_kind IN ('BoxUsage', 'SpotUsage', 'DedicatedUsage', 'HostBoxUsage')
        AND kind IN ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') AS runs,
    usage_kind IN ('UnusedBox', 'UnusedDed') AND kind IN ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') AS reserved_idle,
    -- Reservation: and DedicatedRes: rows have rate 0 and are no hours; the running instance carries them.
    usage_kind IN ('Reservation', 'DedicatedRes') AS placeholder,
    -- AWS reports 0 GPUs for fractional sizes: there the catalogue knows better.
    toDecimal256OrNull(nullIf(nullIf(coalesce(product_gpu, product['gpu']), ''), '0'), 18) AS stated_gpus,
    coalesce(savings_plan_net_amortized_upfront_commitment_for_billing_period, savings_plan_amortized_upfront_commitment_for_billing_period, toDecimal256(0, 40))
        + coalesce(savings_plan_net_recurring_commitment_for_billing_period, savings_plan_recurring_commitment_for_billing_period, toDecimal256(0, 40)) AS net_commitment,
    coalesce(savings_plan_amortized_upfront_commitment_for_billing_period, toDecimal256(0, 40))
        + coalesce(savings_plan_recurring_commitment_for_billing_period, toDecimal256(0, 40)) AS gross_commitment,
    -- Of absent columns all this is constant, and constants are divided before if() chooses.
    savings_plan_total_commitment_to_date - savings_plan_used_commitment AS unused_commitment
SELECT
    x_Row,
    if(paired, toDecimal256(0, 40), cash) AS BilledCost,
    if(paired, cash, toDecimal256(0, 40)) AS x_PairCash,
    multiIf(
        kind = 'SavingsPlanCoveredUsage',
            coalesce(savings_plan_net_savings_plan_effective_cost, savings_plan_savings_plan_effective_cost),
        kind IN ('SavingsPlanNegation', 'SavingsPlanUpfrontFee'), toDecimal256(0, 40),
        kind = 'SavingsPlanRecurringFee',
            -- The product and the quotient are exact and dear: an array of one row's figures, or of none.
            if(gross_commitment = 0 OR net_commitment = gross_commitment, unused_commitment,
                arrayElementOrNull(arrayMap(f -> divideDecimal(multiplyDecimal(f.1, f.2, 40), f.3, 40),
                    if(kind = 'SavingsPlanRecurringFee' AND gross_commitment != 0 AND isNotNull(unused_commitment),
                        [(assumeNotNull(unused_commitment), net_commitment, gross_commitment)], [])), 1)),
        kind = 'DiscountedUsage', coalesce(reservation_net_effective_cost, reservation_effective_cost),
        kind = 'RIFee',
            coalesce(reservation_net_unused_amortized_upfront_fee_for_billing_period,
                reservation_unused_amortized_upfront_fee_for_billing_period, toDecimal256(0, 40))
            + coalesce(reservation_net_unused_recurring_fee, reservation_unused_recurring_fee, toDecimal256(0, 40)),
        kind = 'Fee' AND reservation_reservation_a_r_n IS NOT NULL, toDecimal256(0, 40),
        kind = 'Refund' AND savings_plan_savings_plan_a_r_n IS NOT NULL, toDecimal256(0, 40),
        cash) AS EffectiveCost,
    -- The public on-demand price means nothing for spot.
    if(usage_kind = 'SpotUsage', NULL, pricing_public_on_demand_cost) AS ListCost,
    if(usage_kind = 'SpotUsage', NULL, pricing_public_on_demand_rate) AS ListUnitPrice,
    bill_payer_account_id AS BillingAccountId,
    bill_payer_account_name AS BillingAccountName,
    line_item_currency_code AS BillingCurrency,
    bill_billing_period_start_date AS BillingPeriodStart,
    coalesce(bill_billing_period_end_date, toStartOfMonth(bill_billing_period_start_date) + INTERVAL 1 MONTH) AS BillingPeriodEnd,
    coalesce(line_item_usage_start_date, bill_billing_period_start_date) AS ChargePeriodStart,
    coalesce(line_item_usage_end_date,
        if(line_item_usage_start_date IS NULL, toStartOfMonth(bill_billing_period_start_date) + INTERVAL 1 MONTH,
            toStartOfHour(line_item_usage_start_date) + INTERVAL 1 HOUR)) AS ChargePeriodEnd,
    multiIf(
        kind = 'Tax', 'Tax',
        kind = 'Credit', 'Credit',
        kind IN ('Refund', 'EdpDiscount', 'PrivateRateDiscount', 'RiVolumeDiscount', 'BundledDiscount', 'SppDiscount'), 'Adjustment',
        kind IN ('Fee', 'RIFee', 'SavingsPlanUpfrontFee', 'SavingsPlanRecurringFee', 'FlatRateSubscription'), 'Purchase',
        'Usage') AS ChargeCategory,
    multiIf(kind = 'Fee', 'One-Time', kind IN ('RIFee', 'SavingsPlanRecurringFee'), 'Recurring',
        ChargeCategory = 'Usage', 'Usage-Based', NULL) AS ChargeFrequency,
    line_item_line_item_description AS ChargeDescription,
    coalesce(savings_plan_savings_plan_a_r_n, reservation_reservation_a_r_n) AS CommitmentDiscountId,
    multiIf(savings_plan_savings_plan_a_r_n IS NOT NULL, 'Spend', reservation_reservation_a_r_n IS NOT NULL, 'Usage', NULL) AS CommitmentDiscountCategory,
    multiIf(savings_plan_savings_plan_a_r_n IS NOT NULL, 'Savings Plan', reservation_reservation_a_r_n IS NOT NULL, 'Reservation', NULL) AS CommitmentDiscountType,
    multiIf(kind IN ('SavingsPlanCoveredUsage', 'DiscountedUsage'), 'Used', kind IN ('RIFee', 'SavingsPlanRecurringFee'), 'Unused', NULL) AS CommitmentDiscountStatus,
    capacity_reservation_capacity_reservation_arn AS CapacityReservationId,
    multiIf(reserved_idle, 'Unused', capacity_reservation_capacity_reservation_arn IS NOT NULL AND runs, 'Used', NULL) AS CapacityReservationStatus,
    if(ChargeCategory = 'Usage' AND NOT placeholder AND kind != 'SavingsPlanNegation', line_item_usage_amount, NULL) AS ConsumedQuantity,
    if(ConsumedQuantity IS NULL, NULL, pricing_unit) AS ConsumedUnit,
    ConsumedQuantity AS PricingQuantity,
    if(ConsumedQuantity IS NULL, NULL, pricing_unit) AS PricingUnit,
    multiIf(kind IN ('SavingsPlanCoveredUsage', 'DiscountedUsage'), 'Committed', usage_kind = 'SpotUsage', 'Dynamic',
        ChargeCategory = 'Usage', 'Standard', NULL) AS PricingCategory,
    'Amazon Web Services' AS ServiceProviderName,
    'Amazon Web Services' AS HostProviderName,
    coalesce(bill_invoicing_entity, line_item_legal_entity, 'Amazon Web Services, Inc.') AS InvoiceIssuerName,
    bill_invoice_id AS InvoiceId,
    coalesce(product_product_name, nullIf(product['product_name'], ''), product_servicecode, line_item_product_code) AS ServiceName,
    multiIf(
        product_servicecode = 'AmazonEC2' OR line_item_product_code = 'AmazonEC2' OR line_item_product_code = 'ComputeSavingsPlans', 'Compute',
        line_item_product_code IN ('AmazonS3', 'AmazonEFS', 'AmazonFSx', 'AmazonGlacier', 'AWSBackup'), 'Storage',
        line_item_product_code IN ('AmazonSageMaker', 'AmazonBedrock'), 'AI and Machine Learning',
        line_item_product_code IN ('AmazonVPC', 'AWSDataTransfer', 'AmazonCloudFront', 'AWSELB', 'AmazonRoute53'), 'Networking',
        line_item_product_code IN ('AmazonRDS', 'AmazonDynamoDB', 'AmazonElastiCache'), 'Databases',
        line_item_product_code IN ('AWSLambda', 'AmazonECS', 'AmazonEKS'), 'Compute',
        'Other') AS ServiceCategory,
    coalesce(product_region_code, nullIf(product['region'], ''), product_region,
        nullIf(replaceRegexpOne(ifNull(line_item_availability_zone, ''), '[a-z]$', ''), '')) AS RegionId,
    line_item_availability_zone AS AvailabilityZone,
    line_item_resource_id AS ResourceId,
    if(runs, 'Virtual Machine', NULL) AS ResourceType,
    line_item_usage_account_id AS SubAccountId,
    line_item_usage_account_name AS SubAccountName,
    product_sku AS SkuId,
    coalesce(pricing_rate_id, line_item_usage_type) AS SkuPriceId,
    line_item_usage_type AS SkuMeter,
    pricing_currency AS PricingCurrency,
    mapFromArrays(
        arrayMap(k -> replaceRegexpOne(k, '^user[:_]', ''), mapKeys(resource_tags)), mapValues(resource_tags)) AS Tags,
    resource_tags_bad AS x_BadTags,
    kind AS x_LineItemType,
    'AWS' AS x_ProviderName,
    multiIf(
        bill_billing_entity = 'AWS Marketplace', 'marketplace',
        kind IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation', 'SavingsPlanUpfrontFee', 'SavingsPlanRecurringFee'), 'savings_plan',
        kind IN ('DiscountedUsage', 'RIFee') OR (kind = 'Fee' AND reservation_reservation_a_r_n IS NOT NULL), 'reserved',
        usage_kind = 'SpotUsage', 'spot',
        reserved_idle, 'capacity_reservation',
        ChargeCategory = 'Usage', 'on_demand',
        NULL) AS x_PricingModel,
    if(runs OR reserved_idle OR kind IN ('RIFee'), instance_type, NULL) AS x_InstanceType,
    if(runs OR reserved_idle, stated_gpus, NULL) AS x_StatedGpus,
    if(runs OR reserved_idle, line_item_usage_amount, NULL) AS x_MachineHours
FROM src
