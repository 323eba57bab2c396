-- AWS Cost and Usage Report (legacy and CUR 2.0) to FOCUS 1.4.
-- Money in src is exact Decimal(76, 40); rounding to 18 digits happens once, afterwards.
--
-- BilledCost      cash as invoiced: the net cost where the bill has one, else the unblended cost. Covered usage
--                 and the negation that takes it back are both 0; what they leave over stays on one row.
-- EffectiveCost   amortised, as AWS's own summary_view does it (cloud-intelligence-dashboards): effective cost
--                 of covered usage, unused part of fees, 0 for what is spread elsewhere; net columns first.
-- x_UnblendedCost the line as printed, before discounts that net costs hold. Blended cost is never read: its
--                 rates are averages over the organisation.
-- ListCost        public on-demand cost of usage; none for spot, where it means nothing.
-- ContractedCost  FOCUS: after negotiated and before commitment discounts. Usage: its cash, which for usage
--                 under a savings plan is the on-demand cost that the negation takes back. Usage under a
--                 reservation is printed with cost 0, so there it is the list cost: the negotiated one is
--                 not on the row. Every other row: its cash; a negation has none.
-- Do not add up ContractedCost over all rows: a fee and the usage it covers both have one. Add it up where
-- ChargeCategory is 'Usage'. ListCost is on usage only.
--
-- x_PricingModel and FOCUS PricingCategory of its usage rows:
--   on_demand             Standard
--   spot                  Dynamic    no commitment applies
--   reserved              Committed  the fee's rows have the model and no category
--   savings_plan          Committed  likewise
--   capacity_reservation  Standard   paid at the on-demand price and not used (UnusedBox)
--   capacity_block        Committed  the fee, and what runs inside
--   marketplace           Standard   products of other sellers, machine-hours or not
WITH
    line_item_line_item_type AS kind,
    -- Discounts are rows or in the net costs, never both: where a bill has both, its invoice is the sum of
    -- net costs, and a discount row without a net cost counts 0.
    endsWith(kind, 'Discount') AS is_discount,
    if(is_discount AND has(net_periods, toString(toDate(bill_billing_period_start_date))),
        coalesce(line_item_net_unblended_cost, toDecimal256(0, 40)),
        coalesce(line_item_net_unblended_cost, line_item_unblended_cost)) AS cash,
    kind IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation') AS paired,
    kind IN ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') AS is_usage,
    coalesce(line_item_product_code, product_servicecode, 'AmazonEC2') AS product_code,
    ifNull(bill_billing_entity, 'AWS') = 'AWS Marketplace' AS is_marketplace,
    -- A pod or task (split cost allocation): cost 0, it says which part of its parent is whose.
    split_line_item_parent_resource_id IS NOT NULL AS is_split,
    -- BoxUsage:p5.48xlarge, USE2-SpotUsage:p4d.24xlarge: split at the colon first, types hold hyphens.
    splitByChar(':', ifNull(line_item_usage_type, '')) AS usage_parts,
    splitByChar('-', usage_parts[1])[-1] AS usage_kind,
    coalesce(product_instance_type, nullIf(product['instance_type'], ''),
        if(usage_kind IN ('BoxUsage', 'SpotUsage', 'UnusedBox', 'UnusedDed', 'DedicatedUsage', 'HostBoxUsage',
            'Reservation', 'DedicatedRes', 'HeavyUsage'), nullIf(usage_parts[2], ''), NULL)) AS instance_type,
    -- Only EC2's own rows are machines. EMR, for one, bills its surcharge as BoxUsage, too; SageMaker's ml.
    -- machines and what Marketplace sells are other products at other prices.
    product_code = 'AmazonEC2' AND NOT is_marketplace AND NOT is_split AS is_ec2,
    -- HostBoxUsage is left out: it costs 0, the dedicated host has a row of its own that names no machine.
    is_ec2 AND is_usage AND usage_kind IN ('BoxUsage', 'SpotUsage', 'DedicatedUsage') AS runs,
    is_ec2 AND is_usage AND usage_kind IN ('UnusedBox', 'UnusedDed') AS reserved_idle,
    -- Reservation: and DedicatedRes: rows have rate 0 and are no hours; the running instance carries them.
    usage_kind IN ('Reservation', 'DedicatedRes') AS placeholder,
    usage_kind = 'SpotUsage' AS is_spot,
    -- Capacity Blocks: a fee up front, and inside them only the operating system's fee. AWS does not
    -- document their usage type; without a pattern (--capacity-block) the words themselves are looked for.
    -- A fee that names a capacity reservation is one anyway: no other capacity reservation has a fee.
    concat(ifNull(line_item_usage_type, ''), ' ', ifNull(capacity_reservation_capacity_reservation_type, ''), ' ',
        ifNull(line_item_line_item_description, '')) AS block_text,
    kind IN ('Usage', 'Fee') AND NOT is_split AND NOT is_marketplace AND (if(capacity_block_pattern IS NULL,
        multiSearchAnyCaseInsensitive(block_text, ['capacityblock', 'capacity block', 'capacity-block', 'capacity_block']),
        match(block_text, ifNull(capacity_block_pattern, '')))
        OR kind = 'Fee' AND position(coalesce(capacity_reservation_capacity_reservation_arn, reservation_reservation_a_r_n, line_item_resource_id, ''),
            ':capacity-reservation/') > 0) AS is_block,
    if(NOT is_block, reservation_reservation_a_r_n, NULL) AS reservation_arn,
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
    line_item_unblended_cost AS x_UnblendedCost,
    -- Cash that the rest of the bill decides about: see corrections in processors/normalize.
    multiIf(paired, cash, is_discount AND line_item_net_unblended_cost IS NULL, line_item_unblended_cost, toDecimal256(0, 40)) AS x_PairCash,
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
        -- A fee that does not say what of it was not used has no effective cost, rather than one of 0.
        kind = 'RIFee' AND coalesce(reservation_net_unused_amortized_upfront_fee_for_billing_period, reservation_unused_amortized_upfront_fee_for_billing_period,
            reservation_net_unused_recurring_fee, reservation_unused_recurring_fee) IS NULL, NULL,
        kind = 'RIFee',
            coalesce(reservation_net_unused_amortized_upfront_fee_for_billing_period,
                reservation_unused_amortized_upfront_fee_for_billing_period, toDecimal256(0, 40))
            + coalesce(reservation_net_unused_recurring_fee, reservation_unused_recurring_fee, toDecimal256(0, 40)),
        kind = 'Fee' AND reservation_arn IS NOT NULL, toDecimal256(0, 40),
        -- The one-time fee that comes back was spread over the plan's usage.
        kind = 'Refund' AND (savings_plan_savings_plan_a_r_n IS NOT NULL OR endsWith(product_code, 'SavingsPlans')), toDecimal256(0, 40),
        -- A block's fee stays where and when it is billed: the bill does not say which hours it buys, and
        -- what runs inside does not carry a share of it.
        cash) AS EffectiveCost,
    if(is_usage AND NOT is_spot AND NOT is_split, pricing_public_on_demand_cost, NULL) AS ListCost,
    if(is_usage AND NOT is_spot AND NOT is_split, pricing_public_on_demand_rate, NULL) AS ListUnitPrice,
    multiIf(kind = 'SavingsPlanNegation', toDecimal256(0, 40), kind = 'DiscountedUsage', ListCost, cash) AS ContractedCost,
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
        -- EdpDiscount, PrivateRateDiscount, RiVolumeDiscount, BundledDiscount, SppDiscount.
        kind = 'Refund' OR is_discount, 'Adjustment',
        kind IN ('Fee', 'RIFee', 'SavingsPlanUpfrontFee', 'SavingsPlanRecurringFee', 'FlatRateSubscription'), 'Purchase',
        'Usage') AS ChargeCategory,
    multiIf(kind IN ('Fee', 'SavingsPlanUpfrontFee'), 'One-Time', kind IN ('RIFee', 'SavingsPlanRecurringFee', 'FlatRateSubscription'), 'Recurring',
        ChargeCategory = 'Usage', 'Usage-Based', NULL) AS ChargeFrequency,
    line_item_line_item_description AS ChargeDescription,
    coalesce(savings_plan_savings_plan_a_r_n, reservation_arn) AS CommitmentDiscountId,
    multiIf(savings_plan_savings_plan_a_r_n IS NOT NULL, 'Spend', reservation_arn IS NOT NULL, 'Usage', NULL) AS CommitmentDiscountCategory,
    multiIf(savings_plan_savings_plan_a_r_n IS NOT NULL, 'Savings Plan', reservation_arn IS NOT NULL, 'Reservation', NULL) AS CommitmentDiscountType,
    multiIf(kind IN ('SavingsPlanCoveredUsage', 'DiscountedUsage'), 'Used', kind IN ('RIFee', 'SavingsPlanRecurringFee'), 'Unused', NULL) AS CommitmentDiscountStatus,
    -- The column needs an option of the export; these rows name the reservation as their resource, too.
    coalesce(capacity_reservation_capacity_reservation_arn, if(reserved_idle OR placeholder, line_item_resource_id, NULL),
        if(is_block, coalesce(reservation_reservation_a_r_n, if(kind = 'Fee', line_item_resource_id, NULL)), NULL)) AS CapacityReservationId,
    multiIf(reserved_idle, 'Unused', CapacityReservationId IS NOT NULL AND runs, 'Used', NULL) AS CapacityReservationStatus,
    if(is_usage AND NOT placeholder AND NOT is_split, line_item_usage_amount, NULL) AS ConsumedQuantity,
    if(ConsumedQuantity IS NULL, NULL, pricing_unit) AS ConsumedUnit,
    ConsumedQuantity AS PricingQuantity,
    if(ConsumedQuantity IS NULL, NULL, pricing_unit) AS PricingUnit,
    multiIf(is_split OR NOT is_usage, NULL, kind IN ('SavingsPlanCoveredUsage', 'DiscountedUsage') OR is_block, 'Committed', is_spot, 'Dynamic',
        'Standard') AS PricingCategory,
    'Amazon Web Services' AS ServiceProviderName,
    'Amazon Web Services' AS HostProviderName,
    coalesce(bill_invoicing_entity, line_item_legal_entity, 'Amazon Web Services, Inc.') AS InvoiceIssuerName,
    bill_invoice_id AS InvoiceId,
    coalesce(product_product_name, nullIf(product['product_name'], ''), product_servicecode, line_item_product_code) AS ServiceName,
    multiIf(
        product_servicecode = 'AmazonEC2' OR line_item_product_code = 'AmazonEC2' OR line_item_product_code = 'ComputeSavingsPlans', 'Compute',
        line_item_product_code IN ('AmazonS3', 'AmazonEFS', 'AmazonFSx', 'AmazonGlacier', 'AWSBackup'), 'Storage',
        line_item_product_code IN ('AmazonSageMaker', 'AmazonBedrock'), 'AI and Machine Learning',
        line_item_product_code = 'ElasticMapReduce', 'Analytics',
        match(ifNull(line_item_product_code, ''), '^(AWS|OCB).*Support'), 'Management and Governance',
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
        is_split, NULL,
        is_marketplace, 'marketplace',
        kind IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation', 'SavingsPlanUpfrontFee', 'SavingsPlanRecurringFee'), 'savings_plan',
        kind IN ('DiscountedUsage', 'RIFee') OR (kind = 'Fee' AND reservation_arn IS NOT NULL), 'reserved',
        is_block, 'capacity_block',
        is_spot, 'spot',
        reserved_idle, 'capacity_reservation',
        is_usage, 'on_demand',
        NULL) AS x_PricingModel,
    split_line_item_parent_resource_id AS x_SplitParentId,
    if(is_split, coalesce(split_line_item_net_split_cost, split_line_item_split_cost), NULL) AS x_SplitCost,
    if(is_split, coalesce(split_line_item_net_unused_cost, split_line_item_unused_cost), NULL) AS x_SplitUnusedCost,
    if(is_split, split_line_item_split_usage, NULL) AS x_SplitUsage,
    -- Also of what runs no hours of EC2: fees that are bound to a type, and SageMaker's ml. types.
    if(runs OR reserved_idle OR kind IN ('RIFee', 'Fee') OR product_code = 'AmazonSageMaker', instance_type, NULL) AS x_InstanceType,
    if(runs OR reserved_idle, stated_gpus, NULL) AS x_StatedGpus,
    if(runs OR reserved_idle, line_item_usage_amount, NULL) AS x_MachineHours
FROM src
