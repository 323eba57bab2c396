-- FOCUS 1.0 and 1.2 as AWS exports it, on top of focus.sql, whose rows are f here.
-- AWS writes no usage type into it. The instance type is in SkuPriceDetails (1.2) or only in the
-- description: "$55.04 per On Demand Linux p5.48xlarge Instance Hour". Which rows are a machine's hours
-- follows from the resource, and from service and operation where the export has these columns of AWS's own.
WITH
    ifNull(f.ChargeDescription, '') AS words,
    ifNull(f.ResourceId, '') AS resource,
    coalesce(
        nullIf(JSONExtractString(ifNull(f.SkuPriceDetails, ''), 'InstanceType'), ''),
        nullIf(extract(words, '\\b([a-z][a-z0-9-]*\\.(?:nano|micro|small|medium|large|[0-9]*xlarge|metal(?:-[0-9]+xl)?))\\b'), '')) AS instance_type,
    f.ChargeCategory = 'Usage' AND ifNull(f.CommitmentDiscountStatus, '') != 'Unused'
        AND lower(ifNull(f.ConsumedUnit, '')) IN ('hours', 'hour', 'hrs')
        AND ifNull(aws_service, 'AmazonEC2') = 'AmazonEC2' AND startsWith(ifNull(aws_operation, 'RunInstances'), 'RunInstances')
        -- Hours of EBS optimisation ("$0.00 for 4245 Mbps per c6a.4xlarge instance-hour") and of an EMR
        -- surcharge are not the machine's.
        AND (aws_service IS NOT NULL OR f.ServiceName IS NULL OR positionCaseInsensitive(ifNull(f.ServiceName, ''), 'elastic compute cloud') > 0)
        AND NOT match(words, '(?i)\\bebs[ -]optimi[sz]|\\bmbps per\\b') AS ec2_hours,
    position(resource, ':capacity-reservation/') > 0 AS is_reservation,
    ec2_hours AND NOT is_reservation AND (startsWith(resource, 'i-') OR position(resource, ':instance/i-') > 0) AS runs,
    -- Hours of a capacity reservation that nobody uses are idle money; its used hours cost 0 here and are
    -- on the instance's own row.
    ec2_hours AND is_reservation AND if(f.CapacityReservationStatus IS NULL, positionCaseInsensitive(words, 'unused reservation') > 0,
        f.CapacityReservationStatus = 'Unused') AS reserved_idle,
    ec2_hours AND is_reservation AND NOT reserved_idle AS placeholder
SELECT f.* EXCEPT (aws_service, aws_operation) REPLACE (
    mapFromArrays(arrayMap(k -> replaceRegexpOne(k, '^user:', ''), mapKeys(f.Tags)), mapValues(f.Tags)) AS Tags,
    if(placeholder, NULL, f.ConsumedQuantity) AS ConsumedQuantity,
    if(placeholder, NULL, f.PricingQuantity) AS PricingQuantity,
    if(reserved_idle, 'capacity_reservation', f.x_PricingModel) AS x_PricingModel,
    if(runs OR reserved_idle, instance_type, NULL) AS x_InstanceType,
    if(runs OR reserved_idle, nullIf(f.x_StatedGpus, toDecimal256(0, 18)), NULL) AS x_StatedGpus,
    if(runs OR reserved_idle, f.ConsumedQuantity, NULL) AS x_MachineHours)
FROM (
    focus
) AS f
