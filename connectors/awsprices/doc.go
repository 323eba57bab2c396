// Package awsprices tells what an hour of an EC2 instance type costs: on demand, from the Price
// List API, and on the spot market, from EC2.
//
// Here live which products of the price list are the price of a plain machine, and which price
// changes have been told. Reserved instances, savings plans, Capacity Blocks and what an account
// has negotiated are not told: their money is on the bill, and rates of the bill go first.
package awsprices
