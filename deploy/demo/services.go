package demo

// platform adds shared services: the cluster, the gateway, file system and buckets.
func (b *book) platform() {
	shared := &holder{account: accountPlatform, name: "platform", resource: "arn:aws:eks:us-east-2:" + accountServe + ":cluster/" + eksCluster,
		tags: []pair{{"user_environment", "prod"}, {"user_team", "platform"}}}
	gateway := &holder{account: accountPlatform, name: "platform", resource: "nat-07f1d3c8e0b2a4466"}
	lustre := &holder{account: accountTrain, name: "ml-train", resource: "arn:aws:fsx:us-east-2:" + accountTrain + ":file-system/fs-0a6c1e7b94d2f3380",
		tags: []pair{{"user_project", projectTrain}, {"user_team", "pretrain"}}}
	for h := range b.hours {
		b.hourly(h, b.catalog.cluster, shared, one)
		b.hourly(h, b.catalog.gateway, gateway, one)
		b.hourly(h, b.catalog.lustre, lustre, 48_000*one/hoursOfMonth)
	}
	checkpoints := &holder{account: accountTrain, name: "ml-train", resource: "northlight-checkpoints",
		tags: []pair{{"user_project", projectTrain}, {"user_team", "pretrain"}}}
	datasets := &holder{account: accountTrain, name: "ml-train", resource: "northlight-datasets",
		tags: []pair{{"user_project", projectVision}, {"user_team", "perception"}}}
	logs := &holder{account: accountPlatform, name: "platform", resource: "northlight-access-logs"}
	for d := range b.hours / 24 {
		for i, who := range []*holder{checkpoints, datasets, logs} {
			n := noise(uint64(d), uint64(i), 31)
			b.daily(d, b.catalog.bucket, who, units(uint64(40_000>>(4*i))+n%97)*one/31)
			b.daily(d, b.catalog.puts, who, units(900+n%4_000)*one)
			b.daily(d, b.catalog.gets, who, units(5_000+n%60_000)*one)
		}
	}
}

// daily adds a line of one day.
func (b *book) daily(d int, it *item, who *holder, amount units) {
	from, to := hour(24*d), hour(24*d+24)
	l := b.hourly(24*d, it, who, amount)
	l.from, l.to, l.interval = from, to, interval(from, to)
}

// once adds what is charged once a month: support, credits, tax. The tax line ends the bill
// on a whole cent, as invoices do.
func (b *book) once() {
	management := &holder{account: payerMain, name: "northlight-payer"}
	platform := &holder{account: accountPlatform, name: "platform"}
	support, tax := 6_911_4000*e4, 1_204_1700*e4
	credits := []line{{holder: management, cost: -2_500 * one, description: "AWS Migration Acceleration Program credit"}}
	if b.version == restated {
		support, tax = 6_940_2500*e4, 1_209_0300*e4
		credits = append(credits, line{
			holder: &holder{account: accountTrain, name: "ml-train", zone: zone}, cost: -1_238_4000 * e4,
			description: "EC2 service credit for i-0d6e41f0a3b209, 6 October",
		})
	}
	b.monthly(line{item: b.catalog.support, holder: platform, kind: kindFee, amount: support, cost: support})
	for _, c := range credits {
		c.item, c.kind = b.catalog.credit, kindCredit
		b.monthly(c)
	}
	b.taxed(tax, management)
}

// taxed adds the tax line, raised by less than a cent so that the bill's sum is whole cents.
func (b *book) taxed(tax units, who *holder) {
	sum := tax
	for i := range b.lines {
		sum += b.lines[i].billed()
	}
	if rest := sum % cent; rest > 0 {
		tax += cent - rest
	}
	b.monthly(line{
		item: b.catalog.taxCompute, holder: who, kind: kindTax, amount: one, cost: tax, taxType: "USSalesTax",
	})
}

func (b *book) monthly(l line) {
	l.net, l.from, l.to, l.interval = l.cost, monthStart, monthEnd, interval(monthStart, monthEnd)
	b.add(l)
}

// labsBill returns the bill of a second organisation, bought last year and not yet merged.
func labsBill() []line {
	b := newBook(&payer{id: payerLabs, name: "northlight-labs", billType: "Anniversary", invoiceID: "1987650042"}, restated)
	m := machine{
		host: "lab-01", id: "i-07b2f0d9a4c501", shape: g6Double, pricing: onDemand, account: payerLabs, accountName: "northlight-labs",
		disk: 300, runs: []span{{0, hoursOfMonth * 3600}},
	}
	b.onDemand(&m)
	volume := m.holder("vol-07b2f0d9a4c501")
	for h := range b.hours {
		b.hourly(h, b.catalog.disk, volume, m.disk*one/hoursOfMonth)
	}
	b.taxed(61_2500*e4, &holder{account: payerLabs, name: "northlight-labs"})
	return b.lines
}
