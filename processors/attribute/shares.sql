{{define "shares"}}
    -- What the provider's own split (AWS split cost allocation) says of each machine of bill: the cost of its
    -- pods and tasks in a charge period, used or not, and what is left of the machine's own effective cost.
    -- Weights are whole 10^-18 of the currency, so that a pod gets its cost to the last digit.
    shares AS (
        SELECT Resource, s, e, pod.1 AS Pod, pod.2 AS TagSet, pod.3 AS PodTags, pod.4 AS Weight
        FROM
        (
            SELECT m.Resource AS Resource, m.s AS s, m.e AS e,
                arrayConcat(p.pods, if(m.whole > p.taken, [('', toUInt64(0), '', m.whole - p.taken)], [])) AS pods
            FROM
            (
                SELECT Resource, s, e, groupArray((Pod, TagSet, PodTags, weight)) AS pods, sum(weight) AS taken
                FROM
                (
                    SELECT assumeNotNull(x_SplitParentId) AS Resource, ChargePeriodStart AS s,
                        greatest(ChargePeriodEnd, ChargePeriodStart + INTERVAL 1 MILLISECOND) AS e, ifNull(ResourceId, '(pod without a name)') AS Pod,
                        x_TagSet AS TagSet, if(empty(any(Tags)), '', toJSONString(mapSort(any(Tags)))) AS PodTags,
                        toInt256((sum(toDecimal256(ifNull(x_SplitCost, 0), 18)) + sum(toDecimal256(ifNull(x_SplitUnusedCost, 0), 18)))
                            * toDecimal256('1000000000000000000', 0)) AS weight
                    FROM idlewatt_store.charges
                    WHERE x_Load = {load: UInt64} AND toDate(ChargePeriodStart) IN {days: Array(Date)} AND isNotNull(x_SplitParentId)
                    GROUP BY Resource, s, e, Pod, TagSet HAVING weight > 0
                )
                GROUP BY Resource, s, e
            ) AS p
            INNER JOIN
            (
                SELECT Resource, s, e, toInt256(sum(toDecimal256(assumeNotNull(EffectiveCost), 18)) * toDecimal256('1000000000000000000', 0)) AS whole
                FROM bill GROUP BY Resource, s, e HAVING countIf(isNull(EffectiveCost)) = 0
            ) AS m ON m.Resource = p.Resource AND m.s = p.s AND m.e = p.e
        )
        ARRAY JOIN pods AS pod),
{{- end}}
