//go:build race

package stattest

const race = true
