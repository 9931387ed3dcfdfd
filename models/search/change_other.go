//go:build !(linux || darwin)

package search

func changed(string) int64 { return 0 }
