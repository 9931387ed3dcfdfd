//go:build !linux

package dense

func adviseHuge[T Float]([]T) {}
