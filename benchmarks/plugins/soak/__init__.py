"""Items of many sizes through stages that pass on, make anew, and keep what they are given."""
