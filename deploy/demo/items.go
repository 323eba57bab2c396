package demo

import (
	"fmt"
	"strconv"
)

const (
	planARN        = "arn:aws:savingsplans::471000000001:savingsplan/6f1c2f0e-5a0b-4c3a-9d55-0a6a7c1e9b01"
	commitment     = 82_5000 * e4 // USD per hour
	reservationARN = "arn:aws:ec2:us-east-2:471000000010:capacity-reservation/cr-0b41e7d20c9a55f10"
)

// box is an hour of an instance type: BoxUsage, UnusedBox, Reservation or SpotUsage.
func box(kind string, s shape, rate units) *item {
	it := &item{
		product: "AmazonEC2", service: "AmazonEC2", usage: "USE2-" + kind + ":" + s.name, operation: "RunInstances",
		unit: "Hrs", family: "Compute Instance", term: "OnDemand", instance: s.name, rate: rate,
		sku: fmt.Sprintf("%012X", noise(uint64(len(s.name)), uint64(s.price))>>16), rateID: strconv.FormatUint(noise(uint64(s.price), uint64(len(kind)))>>40, 10),
		attributes: []pair{
			{"operating_system", "Linux"}, {"product_name", "Amazon Elastic Compute Cloud"}, {"region", region},
			{"tenancy", "Shared"}, {"vcpu", strconv.Itoa(s.vcpus)},
		},
	}
	if s.gpus > 0 {
		it.attributes = append(it.attributes, pair{"gpu", strconv.Itoa(s.gpus)})
	}
	switch kind {
	case "SpotUsage":
		it.operation, it.term = "RunInstances:SV001", "Spot"
		it.description = s.name + " Linux/UNIX Spot Instance-hour in US East (Ohio) in VPC Zone #2"
	case "UnusedBox":
		it.description = "$" + rate.text() + " per Unused Reservation Linux " + s.name + " Instance Hour"
	case "Reservation":
		it.description = "$0.0 per Reservation Linux " + s.name + " Instance Hour"
	default:
		it.description = "$" + rate.text() + " per On Demand Linux " + s.name + " Instance Hour"
	}
	return it
}

// sold builds an item that is no instance hour.
func sold(product, usage, operation, family, unit, description string, rate units) *item {
	return &item{
		product: product, service: product, usage: usage, operation: operation, family: family, unit: unit,
		description: description, term: "OnDemand", rate: rate,
		sku: fmt.Sprintf("%012X", noise(uint64(len(usage)), uint64(rate), uint64(usage[len(usage)-1]))>>16),
	}
}

// catalog is what the month sells besides instances.
type catalog struct {
	disk, transferOut, transferRegional, cluster, gateway *item
	lustre, bucket, puts, gets                            *item
	pod, planFee, support, taxCompute, credit             *item
}

func newCatalog() catalog {
	const ec2, s3 = "AmazonEC2", "AmazonS3"
	c := catalog{
		disk: sold(ec2, "USE2-EBS:VolumeUsage.gp3", "CreateVolume-Gp3", "Storage", "GB-Mo",
			"$0.08 per GB-month of General Purpose (gp3) provisioned storage", 800*e4),
		transferOut: sold(ec2, "USE2-DataTransfer-Out-Bytes", "RunInstances", "Data Transfer", "GB",
			"$0.09 per GB - first 10 TB / month data transfer out", 900*e4),
		transferRegional: sold(ec2, "USE2-DataTransfer-Regional-Bytes", "InterZone-Out", "Data Transfer", "GB",
			"$0.01 per GB - regional data transfer", 100*e4),
		cluster: sold("AmazonEKS", "USE2-AmazonEKS-Hours:perCluster", "CreateOperation", "Compute", "Hours",
			"Amazon EKS cluster usage in US East (Ohio)", 1000*e4),
		gateway: sold(ec2, "USE2-NatGateway-Hours", "NatGateway", "NAT Gateway", "Hrs",
			"$0.045 per NAT Gateway Hour", 450*e4),
		lustre: sold("AmazonFSx", "USE2-Storage_PersistentSSD-250.Lustre", "CreateFileSystem:Lustre", "Storage", "GB-Mo",
			"$0.21 per GB-month of Lustre persistent SSD storage", 2100*e4),
		bucket: sold(s3, "USE2-TimedStorage-ByteHrs", "StandardStorage", "Storage", "GB-Mo",
			"$0.023 per GB - first 50 TB / month of storage used", 230*e4),
		puts: sold(s3, "USE2-Requests-Tier1", "PutObject", "API Request", "Requests",
			"$0.005 per 1,000 PUT, COPY, POST, or LIST requests", 50_000),
		gets: sold(s3, "USE2-Requests-Tier2", "GetObject", "API Request", "Requests",
			"$0.004 per 10,000 GET and all other requests", 4_000),
		pod: sold(ec2, "USE2-EKS-EC2-vCPU-Hours", "EKSPod-EC2", "Compute Instance", "vCPU-Hours", "split for pod", 0),
		planFee: sold("ComputeSavingsPlans", "ComputeSP:1yrNoUpfront", "", "ComputeSavingsPlans", "Hrs",
			"1 year No Upfront Compute Savings Plan", commitment),
		support:    sold("AWSSupportEnterprise", "Dollar", "", "AWS Support", "Dollar", "AWS Support (Enterprise)", 0),
		taxCompute: sold(ec2, "USE2-Tax", "", "Compute Instance", "", "Tax for product code AmazonEC2", 0),
		credit:     sold(ec2, "USE2-BoxUsage:p5.48xlarge", "RunInstances", "Compute Instance", "Hrs", "", 0),
	}
	c.planFee.term = "Reserved"
	c.taxCompute.usage = ""
	return c
}
