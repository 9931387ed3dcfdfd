//go:build !docs

package main

import "github.com/spf13/cobra"

// addDocsCommand adds nothing: only builds with the tag docs write documentation.
func addDocsCommand(*cobra.Command) {}
