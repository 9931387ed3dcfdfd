//go:build !race && amd64 && !noasm

package kern

import "github.com/randfeat/randfeat/dense"

func raceRead[T dense.Float](dense.Matrix[T])  {}
func raceWrite[T dense.Float](dense.Matrix[T]) {}
