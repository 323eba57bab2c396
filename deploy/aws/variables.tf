variable "account" {
  description = "Id of the account that has the role and the billing export, usually the payer."
  type        = string
}

variable "bucket" {
  description = "Name of the bucket that the export is delivered to."
  type        = string
}

variable "prefix" {
  description = "S3 path prefix of the export, without slashes at its ends; empty for none."
  type        = string
  default     = "exports"
}

variable "role_name" {
  description = "Name of the role that idlewatt takes on."
  type        = string
  default     = "idlewatt"
}

variable "trusted_principal" {
  description = "ARN of the role or user that idlewatt runs as."
  type        = string
}

variable "external_id" {
  description = "A word that both sides know; it keeps others from using the role through the same principal."
  type        = string
  sensitive   = true
}

variable "member_roles" {
  description = "ARNs of roles in other accounts whose machines are asked for (awsinventory)."
  type        = list(string)
  default     = []
}

variable "manage_bucket_policy" {
  description = "Write the bucket's policy, in place of the one it has."
  type        = bool
  default     = false
}
