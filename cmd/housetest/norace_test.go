//go:build !race

package housetest_test

const raceDetector = false
