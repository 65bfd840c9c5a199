"""Collections: durable items, searchable while their hash functions change."""

from onlinehash.collection.collection import Collection
from onlinehash.collection.insight import EncoderRecord, History, ItemMap, QualityRecord
from onlinehash.collection.maintenance import CheckReport, check_collection
from onlinehash.collection.migration import Migration
from onlinehash.collection.transfer import export_codes, export_items, import_items
from onlinehash.collection.types import Decision, Item, ItemPage, ReviewItem, RiskCoverage, Stats, Suspect

__all__ = [
    "CheckReport",
    "Collection",
    "Decision",
    "EncoderRecord",
    "History",
    "Item",
    "ItemMap",
    "ItemPage",
    "Migration",
    "QualityRecord",
    "ReviewItem",
    "RiskCoverage",
    "Stats",
    "Suspect",
    "check_collection",
    "export_codes",
    "export_items",
    "import_items",
]
