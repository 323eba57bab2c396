// Package awsinventory tells which EC2 instances run, where, since when and under which names.
//
// Here live the questions to EC2 over accounts and regions, what an instance's fields mean, and
// how its runs are followed from poll to poll. AWS says when an instance was started, and of a
// stop that was asked for also when, so that most runs are exact however seldom it is asked.
// What an hour costs is the matter of awsprices and of the bill.
package awsinventory
