package model

import (
	"context"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// Model answers the page. It remembers fits; it is not for several goroutines.
type Model struct {
	// Progress, if it is set, is told how far the advisor is.
	Progress func(stage string, done, total int)

	fits map[fitKey]*estimator
	slow map[string]bool // families whose last fit took long
	base dense.Matrix[float64]
	// ctx and files are those of the call.
	ctx   context.Context
	files [][]byte
}

// estimator is a family, fitted, whose closed forms can be asked for at many pairs.
type estimator struct {
	spec        randfeat.Spec // with M of the state
	form        theory.Estimator
	fixed, each int // features: fixed + each·M
	row         Row
}

// fitKey is what a fit depends on.
type fitKey struct {
	kernel           kernel.Kind
	family           string // its JSON
	fit              bool
	dim              int
	queryLen, keyLen float64
}

// New is a model that remembers nothing.
func New() *Model { return &Model{fits: map[fitKey]*estimator{}, slow: map[string]bool{}} }
