"""Images with boxes and masks of what they show, for detection: VOC's and COCO's layouts, and scenes drawn here."""
